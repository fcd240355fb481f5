// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_measurer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/one_thread_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

class PairMeasurerTest : public ::testing::Test {
 protected:
  // Returns pairs that have the number of their golden tensor, and are so large
  // that they are claimed one by one.
  std::vector<PairTask> Pairs(size_t count,
                              uint64_t bytes = PairMeasurer::kClaimBytesMax) {
    tensors_.resize(count);
    pairs_.resize(count);
    std::vector<PairTask> out;
    for (size_t i = 0; i < count; ++i) {
      tensors_[i].sequence = i;
      tensors_[i].tensor_bytes = bytes;
      pairs_[i] = {&tensors_[i], &tensors_[i]};
      out.push_back({&pairs_[i]});
    }
    return out;
  }

  // Returns a measurement that identifies its pair.
  static PairMeasurement MeasurementOf(const PairTask& task) {
    PairMeasurement out;
    out.metrics.max_abs_index = task.pair->golden->sequence;
    return out;
  }

  testing::FakeStore store_;
  RunRecorder run_{store_, "g"};
  const std::unique_ptr<storage::RunReader> reader_ = *store_.OpenRun("g");
  OneThreadObserver observer_;
  std::vector<LogicalTensor> tensors_;
  std::vector<TensorPair> pairs_;
};

TEST_F(PairMeasurerTest, ResultsComeInOrderAndEveryPairIsMeasuredOnce) {
  std::mutex mu;
  std::multiset<uint64_t> measured;
  PairMeasurer measurer(*reader_, *reader_, observer_,
                        [&](const PairTask& task, const PairAhead&, PairReader&,
                            WorkObserver& reads) {
                          reads.OnRead(10);
                          const std::lock_guard lock(mu);
                          measured.insert(task.pair->golden->sequence);
                          return MeasurementOf(task);
                        });
  for (const size_t count : {0, 1, 2, 500, 3}) {
    measured.clear();
    observer_.read_bytes = 0;
    measurer.Add(Pairs(count));
    for (size_t i = 0; i < count; ++i) {
      const auto result = measurer.Next();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->metrics.max_abs_index, i);
    }
    EXPECT_EQ(measured.size(), count);
    EXPECT_EQ(std::set<uint64_t>(measured.begin(), measured.end()).size(),
              count);
    EXPECT_EQ(observer_.read_bytes, 10 * count);
  }
}

TEST_F(PairMeasurerTest, TwoPairsAreMeasuredAtATime) {
  std::mutex mu;
  std::condition_variable changed;
  int count = 0;
  // Each measurement waits for the other one.
  PairMeasurer measurer(
      *reader_, *reader_, observer_,
      [&](const PairTask& task, const PairAhead&, PairReader&, WorkObserver&) {
        std::unique_lock lock(mu);
        ++count;
        changed.notify_all();
        while (count < 2) changed.wait(lock);
        return MeasurementOf(task);
      });
  measurer.Add(Pairs(2));
  EXPECT_TRUE(measurer.Next().ok());
  EXPECT_TRUE(measurer.Next().ok());
}

TEST_F(PairMeasurerTest, WhatIsMeasuredAheadIsBounded) {
  std::atomic<uint64_t> highest{0};
  PairMeasurer measurer(
      *reader_, *reader_, observer_,
      [&](const PairTask& task, const PairAhead&, PairReader&, WorkObserver&) {
        uint64_t seen = highest.load();
        while (
            seen < task.pair->golden->sequence &&
            !highest.compare_exchange_weak(seen, task.pair->golden->sequence)) {
        }
        return MeasurementOf(task);
      });
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  constexpr uint64_t kAheadMax =
      PairMeasurer::kWindowsMax * PairMeasurer::kWindowBytesMax / (2 * kBytes);
  measurer.Add(Pairs(200, kBytes));
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(measurer.Next().ok());
    EXPECT_LE(highest.load(), i + kAheadMax);
  }
}

TEST_F(PairMeasurerTest, PairsMayBeAddedWhileOthersAreMeasured) {
  const std::vector<PairTask> pairs = Pairs(3000, 100);
  PairMeasurer measurer(*reader_, *reader_, observer_,
                        [](const PairTask& task, const PairAhead& ahead,
                           PairReader&, WorkObserver&) {
                          EXPECT_FALSE(ahead.has_parts());
                          return MeasurementOf(task);
                        });
  std::thread adder([&] {
    for (size_t begin = 0; begin < pairs.size(); begin += 30) {
      measurer.Add(std::span(pairs).subspan(begin, 30));
    }
  });
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto result = measurer.Next();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->metrics.max_abs_index, i);
  }
  adder.join();
}

TEST_F(PairMeasurerTest, PartsOfWholeWindowsAreReadAhead) {
  // The result does not depend on how many parts fit into a batch, or on
  // whether the places of a tensor are known.
  const std::vector<PairTask> pairs = Pairs(500);
  for (size_t i = 0; i < pairs.size(); ++i) {
    RecordedTensor tensor = Floats("op." + std::to_string(i), {float(i)});
    run_.Record(tensor);
    static_cast<storage::TensorInfo&>(tensors_[i]) =
        *reader_->GetTensor(run_.KeyOf(tensor));
    tensors_[i].sequence = i;
    if (i % 7 == 3) tensors_[i].parts.clear();
  }
  for (const size_t limit : {storage::kBatchPartsMax, size_t{9}, size_t{0}}) {
    store_.LimitBatches(limit);
    std::atomic<int> ahead_count{0};
    PairMeasurer measurer(
        *reader_, *reader_, observer_,
        [&](const PairTask& task, const PairAhead& ahead, PairReader&,
            WorkObserver&) {
          if (ahead.has_parts()) {
            for (const PartsAhead& side : {ahead.target, ahead.golden}) {
              const auto bytes = side.batch->Read(side.first);
              float value = -1;
              EXPECT_TRUE(bytes.ok() && bytes->size() == sizeof(value));
              if (bytes.ok()) std::memcpy(&value, bytes->data(), sizeof(value));
              EXPECT_EQ(value, float(task.pair->golden->sequence));
            }
            EXPECT_NE(task.pair->golden->sequence % 7, 3u);
            ++ahead_count;
          }
          return MeasurementOf(task);
        });
    measurer.Add(pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto result = measurer.Next();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->metrics.max_abs_index, i);
    }
    // A pair for which a batch has no space is read separately.
    EXPECT_EQ(ahead_count, limit == 0 ? 0 : 429);
  }
}

TEST_F(PairMeasurerTest, AnErrorBelongsToItsPair) {
  PairMeasurer measurer(*reader_, *reader_, observer_,
                        [](const PairTask& task, const PairAhead&, PairReader&,
                           WorkObserver&) -> absl::StatusOr<PairMeasurement> {
                          if (task.pair->golden->sequence % 3 == 1)
                            return absl::DataLossError("bad");
                          return MeasurementOf(task);
                        });
  measurer.Add(Pairs(30));
  for (size_t i = 0; i < 30; ++i) {
    const auto result = measurer.Next();
    EXPECT_EQ(result.ok(), i % 3 != 1) << i;
  }
}

TEST_F(PairMeasurerTest, CancelEndsTheWaitForTheOtherThread) {
  std::atomic<bool> is_released{false};
  std::atomic<bool> was_stopped{false};
  const std::thread::id here = std::this_thread::get_id();
  {
    PairMeasurer measurer(*reader_, *reader_, observer_,
                          [&](const PairTask& task, const PairAhead&,
                              PairReader&, WorkObserver& reads) {
                            if (std::this_thread::get_id() == here) {
                              return MeasurementOf(task);
                            }
                            observer_.is_cancelled = true;
                            while (reads.Check().ok())
                              std::this_thread::yield();
                            was_stopped = true;
                            return MeasurementOf(task);
                          });
    measurer.Add(Pairs(2));
    absl::Status status;
    for (int i = 0; i < 2 && status.ok(); ++i) {
      status = measurer.Next().status();
    }
    // The calling thread may have measured both pairs itself.
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    is_released = status.ok();
  }
  EXPECT_TRUE(is_released || was_stopped);
}

TEST_F(PairMeasurerTest, StopWaitsForThePairAtHand) {
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<int> ahead_count{0};
  std::atomic<bool> is_busy{false};
  PairMeasurer measurer(*reader_, *reader_, observer_,
                        [&](const PairTask& task, const PairAhead&, PairReader&,
                            WorkObserver& reads) {
                          if (std::this_thread::get_id() == here) {
                            observer_.is_cancelled = true;
                            // Continues when the other thread is working.
                            while (ahead_count == 0) std::this_thread::yield();
                          } else {
                            is_busy = true;
                            ++ahead_count;
                            while (reads.Check().ok())
                              std::this_thread::yield();
                            is_busy = false;
                          }
                          return MeasurementOf(task);
                        });
  std::vector<PairTask> pairs = Pairs(2);
  // One thread takes the first pair, and the other thread takes the second one.
  measurer.Add(pairs);
  measurer.Next().status().IgnoreError();
  measurer.Stop();
  EXPECT_FALSE(is_busy);
  EXPECT_EQ(ahead_count, 1);
}

}  // namespace
}  // namespace msitd::compare
