// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/pair_measurer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/spare_thread.h"

namespace msitd::compare {

class PairMeasurer::AheadObserver final : public ComparisonObserver {
 public:
  explicit AheadObserver(PairMeasurer& measurer) : measurer_(measurer) {}

  bool IsCancelled() override {
    return measurer_.is_stopping_.load(std::memory_order_relaxed);
  }
  void OnTotal(uint64_t /*tensor_count*/) override {}
  void OnRead(uint64_t bytes) override {
    measurer_.ahead_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  absl::Status OnRow(const v1::ComparisonRow& /*row*/,
                     std::string /*bytes*/) override {
    return absl::OkStatus();
  }

 private:
  PairMeasurer& measurer_;
};

PairMeasurer::PairMeasurer(storage::ChunkStore& store,
                           ComparisonObserver& observer, Measure measure)
    : observer_(observer),
      measure_(std::move(measure)),
      reader_(store),
      ahead_reader_(store) {}

void PairMeasurer::Stop() {
  if (!ahead_.joinable()) return;
  {
    const MutexLock lock(mu_);
    is_stopping_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  ahead_.join();
}

void PairMeasurer::Start(std::vector<const TensorPair*> pairs) {
  const MutexLock lock(mu_);
  MSITD_CHECK(next_ == pairs_.size());
  next_ = claimed_ = window_end_ = 0;
  pairs_ = std::move(pairs);
}

absl::StatusOr<PairMeasurement> PairMeasurer::Next() {
  const size_t index = next_++;
  while (true) {
    std::optional<size_t> mine;
    {
      const MutexLock lock(mu_);
      MSITD_CHECK(index < pairs_.size());
      OpenWindow(index);
      if (!ResultOf(index).has_value()) {
        // The one that is asked for comes first, unless it is in other hands.
        mine = Claim(window_end_);
        if (!mine.has_value()) {
          changed_.WaitUntil(
              mu_, std::chrono::steady_clock::now() + kQuestionInterval);
        }
      }
    }
    if (mine.has_value()) MeasureOn(*mine, reader_, observer_);
    if (const uint64_t bytes =
            ahead_bytes_.exchange(0, std::memory_order_relaxed);
        bytes > 0) {
      observer_.OnRead(bytes);
    }
    {
      const MutexLock lock(mu_);
      if (Result& result = ResultOf(index); result.has_value()) {
        return *std::exchange(result, std::nullopt);
      }
    }
    if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
  }
}

std::optional<size_t> PairMeasurer::Claim(size_t end) {
  if (claimed_ >= end) return std::nullopt;
  return claimed_++;
}

void PairMeasurer::OpenWindow(size_t index) {
  window_end_ = std::min(pairs_.size(), index + 1 + kAheadMax);
  if (window_end_ == index + 1) return;
  if (!ahead_.joinable()) {
    ahead_ = StartSpareThread([this] { WorkAhead(); });
  }
  changed_.NotifyAll();
}

void PairMeasurer::MeasureOn(size_t index, PairReader& reader,
                             ComparisonObserver& observer) {
  const TensorPair* pair = nullptr;
  {
    const MutexLock lock(mu_);
    pair = pairs_[index];
  }
  absl::StatusOr<PairMeasurement> result = measure_(*pair, reader, observer);
  const MutexLock lock(mu_);
  ResultOf(index) = std::move(result);
  changed_.NotifyAll();
}

void PairMeasurer::WorkAhead() {
  AheadObserver observer(*this);
  while (true) {
    std::optional<size_t> mine;
    {
      const MutexLock lock(mu_);
      while (!(mine = Claim(window_end_)).has_value()) {
        if (observer.IsCancelled()) return;
        changed_.Wait(mu_);
      }
    }
    if (observer.IsCancelled()) return;
    MeasureOn(*mine, ahead_reader_, observer);
  }
}

}  // namespace msitd::compare
