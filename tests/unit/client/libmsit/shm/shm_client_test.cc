// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "protos/status/status.h"
#include "tests/support/named_runs.h"
#include "tests/support/thread_switches.h"
#include "tests/unit/client/libmsit/shm/shm_client_fixture.h"
#include "tests/unit/daemon/shm/server_fixture.h"

// Tests with the client and the ingest server of the daemon in one process.
namespace msitd::libmsit {
namespace {

class ShmClientTest : public shm::ServerTest {
 protected:
  Status Open(const ClientOptions& options = ShmOptions("run")) {
    return OpenShm(options, path(), &client_);
  }

  // Returns the bytes of a stored tensor of one part.
  std::vector<std::byte> Stored(const std::string& op, const std::string& run,
                                int32_t rank = 0) {
    testing::NamedRuns runs(store_);
    const auto info = runs.GetTensor({.run = run,
                                      .rank = rank,
                                      .device = "cpu:0",
                                      .token = 0,
                                      .op = op,
                                      .call = 0,
                                      .io = Io::kOutput,
                                      .index = "0"});
    if (!info.ok() || info->parts.size() != 1) return {};
    AlignedBuffer buffer;
    const auto bytes = runs.ReadPart(run, info->parts[0], buffer);
    if (!bytes.ok()) return {};
    return {bytes->begin(), bytes->end()};
  }

  std::unique_ptr<Reservation> Reserve(const std::string& op) {
    const int64_t dims[] = {1000};
    TensorView tensor;
    tensor.op = op;
    tensor.io = Io::kOutput;
    tensor.index = "0";
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.comes_later = true;
    std::unique_ptr<Reservation> reservation;
    EXPECT_TRUE(client_->Reserve(tensor, &reservation).ok());
    return reservation;
  }

  std::unique_ptr<Client> client_;
};

TEST_F(ShmClientTest, WhatIsRecordedIsStored) {
  Start();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "a", 10'000, 7).ok());
  ASSERT_TRUE(Record(*client_, "large", 3 * kPartBytes + 5).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Stored("a", "run"), std::vector(10'000, std::byte{7}));
  EXPECT_EQ(TensorCount("run"), 2u);
  EXPECT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ShmClientTest, ThreadsOfSixteenRanksRecordAtOnce) {
  constexpr int kRanks = 16;
  constexpr int kThreads = 2;
  constexpr int kRecords = 30;
  Start();
  std::vector<std::unique_ptr<Client>> clients(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    ClientOptions options = ShmOptions("run", rank, kRanks);
    options.buffer_bytes = 3 * kSlotBytes;
    ASSERT_TRUE(OpenShm(options, path(), &clients[rank]).ok());
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&client = *clients[rank], rank, thread] {
        for (int i = 0; i < kRecords; ++i) {
          const std::string op =
              std::to_string(thread) + "." + std::to_string(i);
          EXPECT_TRUE(Record(client, op, 50'000 + i, rank * 10 + thread).ok());
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : clients) ASSERT_TRUE(client->Close(kLong).ok());
  EXPECT_EQ(TensorCount("run"), uint64_t{kRanks * kThreads * kRecords});
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(Stored("1.29", "run", rank),
              std::vector(50'029, std::byte(rank * 10 + 1)));
  }
}

TEST_F(ShmClientTest, RecordsFromBeforeTheDaemonWasUpAreStoredOnce) {
  ClientOptions options = ShmOptions("run");
  options.open_timeout = seconds(0);
  ASSERT_TRUE(Open(options).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Record(*client_, "op" + std::to_string(i), kPartBytes, i).ok());
  }
  Start();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 10u);
  EXPECT_EQ(Stored("op9", "run"), std::vector(kPartBytes, std::byte{9}));
  ASSERT_TRUE(Record(*client_, "late", 10).ok());
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 11u);
}

TEST_F(ShmClientTest, WhatWasBegunBeforeTheDaemonWasUpDoesNotLinger) {
  ClientOptions options = ShmOptions("run");
  options.open_timeout = seconds(0);
  options.linger = kLong;
  ASSERT_TRUE(Open(options).ok());
  ASSERT_TRUE(Record(*client_, "op", 1000).ok());
  Start();
  const auto deadline = std::chrono::steady_clock::now() + kLong / 2;
  while (TensorCount("run") == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST_F(ShmClientTest, WhatIsReservedStaysWhereItIsWhenTheDaemonComesUp) {
  ClientOptions options = ShmOptions("run");
  options.open_timeout = seconds(0);
  ASSERT_TRUE(Open(options).ok());
  std::unique_ptr<Reservation> early = Reserve("early");
  EXPECT_TRUE(client_->Memory().empty());
  Start();
  while (client_->Memory().empty()) std::this_thread::yield();
  std::unique_ptr<Reservation> late = Reserve("late");
  const std::span<std::byte> memory = client_->Memory()[0];
  for (const auto* one : {early.get(), late.get()}) {
    const std::span<std::byte> bytes = one->parts[0].bytes;
    EXPECT_EQ(bytes.data() >= memory.data() &&
                  bytes.data() + bytes.size() <= memory.data() + memory.size(),
              one == late.get());
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    ASSERT_TRUE(client_->Publish(*one, true).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  for (const char* op : {"early", "late"}) {
    EXPECT_EQ(Stored(op, "run"), std::vector(1000, std::byte{7}));
  }
}

TEST_F(ShmClientTest, ReservationThatIsOpenAtTheEndIsNotStored) {
  Start();
  ASSERT_TRUE(Open().ok());
  std::unique_ptr<Reservation> reserved = Reserve("reserved");
  ASSERT_TRUE(Record(*client_, "same chunk", 1000).ok());
  EXPECT_EQ(client_->Close(milliseconds(400)).code, MSIT_ERROR_TIMEOUT);
  // The next record is delivered.
  EXPECT_EQ(client_->counters().dropped_count, 1u);
  std::ranges::fill(reserved->parts[0].bytes, std::byte{7});
  EXPECT_EQ(client_->Publish(*reserved, true).code, MSIT_ERROR_CLOSED);
  client_.reset();
  Stop();
  Start();
  EXPECT_EQ(TensorCount("run"), 1u);
  EXPECT_EQ(Stored("same chunk", "run").size(), 1000u);
}

TEST_F(ShmClientTest, OpenChunkGoesOnBehindARestartOfTheDaemon) {
  Start();
  ClientOptions options = ShmOptions("run");
  options.linger = kLong;
  ASSERT_TRUE(Open(options).ok());
  ASSERT_TRUE(Record(*client_, "first", 1000).ok());
  Stop();
  Start();
  ASSERT_TRUE(Record(*client_, "second", 1000).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 2u);
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
}

TEST_F(ShmClientTest, DaemonMayGiveLessMemoryThanWasFilledMeanwhile) {
  options_.arena_bytes_max = shm::kArenaBytesMin;
  ClientOptions options = ShmOptions("run");
  options.open_timeout = seconds(0);
  options.buffer_bytes = 12 * kSlotBytes;
  ASSERT_TRUE(Open(options).ok());
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(Record(*client_, "op" + std::to_string(i), kPartBytes, i).ok());
  }
  Start();
  for (int i = 12; i < 30; ++i) {
    ASSERT_TRUE(Record(*client_, "op" + std::to_string(i), kPartBytes, i).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 30u);
  EXPECT_EQ(Stored("op11", "run"), std::vector(kPartBytes, std::byte{11}));
}

TEST_F(ShmClientTest, ChunksThatWereNotAcknowledgedAreOfferedAgain) {
  Start();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "first", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  store_.FailAppends(WithReason(absl::UnavailableError("no disk"),
                                ErrorReason::kStorageFailed));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Record(*client_, "op" + std::to_string(i), kPartBytes, i).ok());
  }
  store_.AwaitFailedAppend();
  EXPECT_EQ(client_->Flush(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  store_.FailAppends(absl::OkStatus());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 9u);
  EXPECT_EQ(Stored("op7", "run"), std::vector(kPartBytes, std::byte{7}));
  EXPECT_GE(client_->counters().reconnect_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ShmClientTest, RestartedDaemonGetsTheMemoryBack) {
  Start();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "before", 1000, 1).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  Stop();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Record(*client_, "op" + std::to_string(i), kPartBytes, i).ok());
  }
  Start();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 6u);
  EXPECT_EQ(Stored("op4", "run"), std::vector(kPartBytes, std::byte{4}));
}

TEST_F(ShmClientTest, DropsReachTheRun) {
  Start();
  ClientOptions options = ShmOptions("run");
  options.buffer_bytes = 2 * kSlotBytes;
  options.max_block = milliseconds(5);
  ASSERT_TRUE(Open(options).ok());
  store_.BlockAppends();
  uint64_t dropped_count = 0;
  for (int i = 0; i < 10; ++i) {
    dropped_count += Record(*client_, "op", kPartBytes).ok() ? 0 : 1;
  }
  EXPECT_EQ(dropped_count, 8u);
  store_.UnblockAppends();
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(client_->counters().dropped_count, 8u);
  EXPECT_EQ(store_.GetRun("run")->counters.dropped_count, 8u);
}

TEST_F(ShmClientTest, RefusalSaysWhy) {
  Start();
  ASSERT_TRUE(Open().ok());
  std::unique_ptr<Client> other;
  const Status status = OpenShm(ShmOptions("run", 0, 2), path(), &other);
  EXPECT_EQ(status.code, MSIT_ERROR_REFUSED);
  EXPECT_NE(status.message.find("FAILED_PRECONDITION"), std::string::npos);
  EXPECT_NE(status.message.find("[RUN_EXISTS]"), std::string::npos);
}

// Returns the number of writable mappings of this process with that name.
int WritableMappings(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("rw-s") != std::string::npos &&
        line.find(name) != std::string::npos) {
      ++count;
    }
  }
  return count;
}

TEST_F(ShmClientTest, ForkedChildHasNoneOfTheMemory) {
  Start();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "before", 1000).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  // The server in this process also maps the table, and the arena for reading.
  ASSERT_EQ(WritableMappings("msitd-arena"), 1);
  ASSERT_EQ(WritableMappings("msitd-table"), 2);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool is_off =
        Record(*client_, "child", 1000).code == MSIT_ERROR_FORKED &&
        client_->counters().dropped_count == 1;
    ::_exit((is_off ? 0 : 1) + 2 * WritableMappings("msitd-arena") +
            8 * (WritableMappings("msitd-table") - 1));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(Record(*client_, "after", 1000).ok());
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 2u);
}

// Returns how often the idle threads of client and daemon were scheduled within
// `watch`.
std::map<std::string, uint64_t> SwitchesWithin(milliseconds watch) {
  const auto before = testing::ThreadSwitches();
  std::this_thread::sleep_for(watch);
  auto after = testing::ThreadSwitches();
  std::map<std::string, uint64_t> out;
  for (const char* name :
       {"msit-sender", "msit-session", "shared-memory", "digest", "commit"}) {
    EXPECT_TRUE(after.contains(name)) << name;
    out[name] = after[name] - before.at(name);
  }
  return out;
}

TEST_F(ShmClientTest, NobodyWakesWhileNothingIsRecorded) {
  Start();
  ClientOptions options = ShmOptions("run");
  options.report_interval = milliseconds(1);
  ASSERT_TRUE(Open(options).ok());
  ASSERT_TRUE(Record(*client_, "op", 1000).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  // Waits until the last report about the record was sent.
  std::this_thread::sleep_for(milliseconds(200));
  // The interval is longer than that of any periodic check.
  for (const auto& [name, count] : SwitchesWithin(milliseconds(1'200))) {
    EXPECT_EQ(count, 0u) << name;
  }
  // The threads wake up when there is work.
  client_->NextToken();
  ASSERT_TRUE(Record(*client_, "op", 1000).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(TensorCount("run"), 2u);
}

}  // namespace
}  // namespace msitd::libmsit
