// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/store.h"
#include "tests/support/fault_env.h"
#include "tests/support/named_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

// Fails the first disk operation during a piece of work, then the second one in
// the same work, and so on, until no operation fails. After each failure,
// checks that all acknowledged data is stored bit for bit, and that no torn
// data is visible.
namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;
using ::msitd::testing::MakeTensor;
using ::msitd::testing::NamedRuns;
using ::msitd::testing::TempDir;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;

constexpr char kRun[] = "run";
constexpr int kStreamCount = 2;
constexpr int kRoundCount = 7;
// Bytes of the run that retention keeps, in the rounds that retain.
constexpr uint64_t kKeptBytesMax = 45'000;

// In scenarios that share bytes, the tensors from this token on have equal
// bytes, which are whole pages.
constexpr int64_t kFirstWeightsToken = 10'000;
constexpr uint64_t kWeightsBytes = 5 * 4096;
constexpr uint32_t kWeightsSeed = 9'999;

// Returns the tensors of one chunk of a stream. Their names determine their
// bytes.
std::vector<TestTensor> RecordsOf(int stream, int chunk,
                                  bool has_weights = false) {
  std::vector<TestTensor> records;
  if (has_weights) {
    records.push_back(MakeTensor(kRun,
                                 kFirstWeightsToken + 100 * stream + chunk,
                                 "op", kWeightsBytes, kWeightsSeed));
  }
  for (int i = 0; i < 2; ++i) {
    const uint32_t seed = 1 + 100 * stream + 10 * chunk + i;
    records.push_back(
        MakeTensor(kRun, seed, "op", 700 + 3000 * (seed % 5), seed));
  }
  return records;
}

// One producer for each stream. It repeats a chunk until the chunk is
// acknowledged.
class Workload {
 public:
  explicit Workload(const StoreOptions& options) : options_(options) {}

  // Opens the store and runs the workload. Returns early if the store becomes
  // unusable.
  void Run(Env& env) {
    auto store = Store::Open(options_, env);
    if (!store.ok()) return;
    if (const auto run = (*store)->runs().CreateRun({kRun, 0, {}}); !run.ok())
      return;
    for (int round = 0; round < kRoundCount; ++round) {
      for (int attempt = 0; attempt < 3; ++attempt) {
        if (Send(**store, round)) break;
      }
      if (retains_ && round >= 4) Retain(**store);
      if (shares_ && round >= 3) Share(**store);
    }
  }
  void set_retains(bool retains) { retains_ = retains; }
  void set_shares(bool shares) { shares_ = shares; }
  bool shares() const { return shares_; }

  // Returns the tensors of acknowledged chunks.
  const std::vector<TestTensor>& acknowledged() const { return acknowledged_; }
  int acknowledged_chunks(int stream) const { return chunks_[stream]; }

 private:
  // A failed step is repeated in the next round, or not at all.
  static void Retain(Store& store) {
    const RetentionPolicy policy = {.run = {.bytes_max = kKeptBytesMax}};
    for (int step = 0; step < 8; ++step) {
      const auto done = store.upkeep().Retain(policy);
      if (done.ok() && done->is_done) break;
    }
  }

  static void Share(Store& store) {
    for (int step = 0; step < 8; ++step) {
      const auto done = store.upkeep().Share();
      if (done.ok() && done->is_done) break;
    }
  }

  bool Send(Store& store, int round) {
    TestChunks chunks;
    std::vector<TestTensor> sent;
    for (int stream = 0; stream < kStreamCount; ++stream) {
      const auto records = RecordsOf(stream, chunks_[stream], shares_);
      chunks.Add(1 + stream, chunks_[stream], records);
      sent.insert(sent.end(), records.begin(), records.end());
    }
    // A failed deletion leaves at most one file.
    if (round == 2) {
      store.runs().CreateRun({"short-lived", 0, {}}).status().IgnoreError();
      store.runs().DeleteRun("short-lived").IgnoreError();
    }
    if (!store.log().Append(chunks.span()).ok()) return false;
    for (int stream = 0; stream < kStreamCount; ++stream) ++chunks_[stream];
    acknowledged_.insert(acknowledged_.end(), sent.begin(), sent.end());
    return true;
  }

  const StoreOptions options_;
  bool retains_ = false;
  bool shares_ = false;
  int chunks_[kStreamCount] = {};
  std::vector<TestTensor> acknowledged_;
};

// Expects that the store contains all acknowledged data, and only data that was
// sent.
void Judge(Store& store, const Workload& work) {
  std::map<int64_t, std::vector<std::byte>> found;
  NamedRuns read(store.readers());
  auto scan = read.Scan(kRun, {}, "");
  if (!scan.ok()) {
    // In this case, not even the run was acknowledged.
    ASSERT_TRUE(work.acknowledged().empty()) << scan.status();
    return;
  }
  TensorInfo info;
  AlignedBuffer buffer;
  uint64_t kept_bytes = 0;
  uint64_t expired_bytes = 0;
  while (true) {
    const auto next = (*scan)->Next(info);
    ASSERT_TRUE(next.ok()) << next.status();
    if (!*next) break;
    const uint32_t seed = info.key.token < kFirstWeightsToken
                              ? static_cast<uint32_t>(info.key.token)
                              : kWeightsSeed;
    const TestTensor expected =
        MakeTensor(kRun, info.key.token, "op", info.tensor_bytes, seed);
    EXPECT_EQ(info.key, expected.key);
    EXPECT_EQ(info.hash, chunk::HashBytes(expected.bytes));
    const auto bytes = read.ReadPart(kRun, info.parts.at(0), buffer);
    if (!info.has_bytes) {
      EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED") << bytes.status();
      expired_bytes += info.tensor_bytes;
      found[info.key.token] = expected.bytes;
      continue;
    }
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    kept_bytes += info.tensor_bytes;
    found[info.key.token].assign(bytes->begin(), bytes->end());
    EXPECT_TRUE(found[info.key.token] == expected.bytes) << info.key.token;
  }
  // At most one chunk more than necessary has expired. This is the maximum size
  // of a chunk.
  if (expired_bytes > 0) {
    EXPECT_GT(kept_bytes + 30'000, kKeptBytesMax);
  }
  for (const TestTensor& tensor : work.acknowledged()) {
    EXPECT_TRUE(found[tensor.key.token] == tensor.bytes) << tensor.key.token;
  }
  for (int stream = 0; stream < kStreamCount; ++stream) {
    const auto count = store.log().CommittedChunkCount(kRun, 0, 1 + stream);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_GE(*count, static_cast<uint64_t>(work.acknowledged_chunks(stream)));
    // Expects all chunks that count as committed, because they are not sent
    // again.
    for (uint64_t chunk = 0; chunk < *count; ++chunk) {
      for (const auto& record :
           RecordsOf(stream, static_cast<int>(chunk), work.shares())) {
        EXPECT_TRUE(found.contains(record.key.token))
            << "stream " << stream << " chunk " << chunk;
      }
    }
  }
  const auto counters = store.runs().GetRun(kRun)->counters;
  EXPECT_EQ(counters.expired_bytes, expired_bytes);
  EXPECT_EQ(counters.tensor_count, found.size());
  EXPECT_EQ(counters.duplicate_count, 0u);
  EXPECT_EQ(counters.conflict_count, 0u);
}

struct Scenario {
  std::string name;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  bool forever = false;
  bool cut_power = false;
  FaultEnv::PowerLoss power_loss = FaultEnv::PowerLoss::kLoseAll;
  bool retains = false;
  bool shares = false;
  // Operations on the files of the index fail as well. Because there are many
  // of them, each scenario fails every third one, beginning with this one.
  int first_index_operation = 0;
};

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

// Expects that retention resumes and frees the space.
void ExpectRetained(Store& store) {
  const RetentionPolicy policy = {.run = {.bytes_max = kKeptBytesMax}};
  bool is_done = false;
  for (int step = 0; step < 20 && !is_done; ++step) {
    const auto done = store.upkeep().Retain(policy);
    ASSERT_TRUE(done.ok()) << done.status();
    is_done = done->is_done;
  }
  EXPECT_TRUE(is_done);
  const RunCounters counters = store.runs().GetRun(kRun)->counters;
  EXPECT_LE(counters.kept_bytes(), kKeptBytesMax);
  // In addition to the payload, there is up to one page for each tensor and
  // each head, and the headers of segments.
  EXPECT_LE(store.upkeep().Stats().segment_bytes,
            counters.kept_bytes() + 5 * 4096 * 2 * kRoundCount);
}

// Expects that equal bytes are stored in one place, regardless of previous
// failures.
void ExpectShared(Store& store, const Workload& work) {
  bool is_done = false;
  for (int step = 0; step < 20 && !is_done; ++step) {
    const auto done = store.upkeep().Share();
    ASSERT_TRUE(done.ok()) << done.status();
    is_done = done->is_done;
  }
  EXPECT_TRUE(is_done);
  uint64_t chunk_count = 0;
  for (int stream = 0; stream < kStreamCount; ++stream) {
    chunk_count += work.acknowledged_chunks(stream);
  }
  // In addition to the payload, there is a head and the rest of a page for each
  // chunk, the headers of segments, and the data that a failed Append could not
  // remove.
  constexpr uint64_t kLeftoverBytes = 2 * 60'000;
  EXPECT_LE(
      store.upkeep().Stats().segment_bytes + (chunk_count - 1) * kWeightsBytes,
      store.runs().GetRun(kRun)->counters.payload_bytes +
          chunk_count * 3 * 4096 + kLeftoverBytes);
}

class StoreFaultTest : public ::testing::TestWithParam<Scenario> {};

TEST_P(StoreFaultTest, NthFailureLosesNothingAcknowledged) {
  const Scenario& scenario = GetParam();
  const bool counts_index = scenario.first_index_operation > 0;
  constexpr uint64_t kIndexStride = 3;
  uint64_t number = 0;
  while (true) {
    if (number == 0 && counts_index) {
      number = scenario.first_index_operation;
    } else {
      number += counts_index ? kIndexStride : 1;
    }
    SCOPED_TRACE(fmt::format("operation {} fails", number));
    const TempDir dir = TempDir::InMemory();
    StoreOptions options;
    options.directory = dir / "store";
    options.segment_bytes_max = 40 << 10;
    options.index_write_buffer_bytes = 64 << 10;
    FaultEnv env(Env::Posix());
    if (counts_index) env.CountIndex();
    env.FailAt(number, absl::Status(scenario.code, "injected"),
               scenario.forever);
    Workload work(options);
    work.set_retains(scenario.retains);
    work.set_shares(scenario.shares);
    work.Run(env);
    const bool has_failed = env.operation_count() >= number;
    env.StopFailing();
    if (scenario.cut_power) {
      env.CutPower(scenario.power_loss, static_cast<uint32_t>(number));
    }
    // Reopening the store gives the same result.
    for (int i = 0; i < 2; ++i) {
      auto store = Store::Open(options, env);
      ASSERT_TRUE(store.ok()) << store.status();
      Judge(**store, work);
      // Unfinished work is completed now.
      if (scenario.retains && i == 0 && !work.acknowledged().empty()) {
        ExpectRetained(**store);
        Judge(**store, work);
      }
      if (scenario.shares && i == 0 && !work.acknowledged().empty()) {
        ExpectShared(**store, work);
        Judge(**store, work);
      }
      if (::testing::Test::HasFailure()) return;
    }
    if (!has_failed) break;
  }
  // With fewer operations, the test would be meaningless.
  EXPECT_GT(number, 30u);
  RecordProperty("operations", static_cast<int>(number));
}

INSTANTIATE_TEST_SUITE_P(
    All, StoreFaultTest,
    ::testing::Values(
        Scenario{"OneFailure"},
        Scenario{"DiskFull", absl::StatusCode::kResourceExhausted, true},
        Scenario{"DiskDiesAndPowerGoes", absl::StatusCode::kUnavailable, true,
                 true, FaultEnv::PowerLoss::kLoseAll},
        Scenario{"DiskDiesAndSomePagesAreLost", absl::StatusCode::kUnavailable,
                 true, true, FaultEnv::PowerLoss::kLoseSome},
        Scenario{"DiskDiesAndPagesReadAsZeros", absl::StatusCode::kUnavailable,
                 true, true, FaultEnv::PowerLoss::kKeepSizes},
        Scenario{"OneFailureThenSomePagesAreLost",
                 absl::StatusCode::kUnavailable, false, true,
                 FaultEnv::PowerLoss::kLoseSome},
        Scenario{.name = "OneFailureWhileBytesAreGivenUp", .retains = true},
        Scenario{.name = "DiskDiesWhileBytesAreGivenUpAndPowerGoes",
                 .forever = true,
                 .cut_power = true,
                 .retains = true},
        Scenario{.name = "OneFailureWhileBytesAreShared", .shares = true},
        Scenario{.name = "DiskDiesWhileBytesAreSharedAndPowerGoes",
                 .forever = true,
                 .cut_power = true,
                 .shares = true},
        Scenario{.name = "OneFailureOfTheIndex", .first_index_operation = 1},
        Scenario{.name = "DiskFullForTheIndexToo",
                 .code = absl::StatusCode::kResourceExhausted,
                 .forever = true,
                 .first_index_operation = 2},
        Scenario{.name = "OneFailureOfTheIndexWhileBytesAreGivenUp",
                 .retains = true,
                 .first_index_operation = 3}),
    [](const ::testing::TestParamInfo<Scenario>& info) {
      return info.param.name;
    });

class StoreFaultCaseTest : public ::testing::Test {
 protected:
  StoreFaultCaseTest() { options_.directory = dir_ / "store"; }

  void Close() {
    read_.reset();
    store_.reset();
  }
  void Open() {
    Close();
    auto store = Store::Open(options_, env_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    read_.emplace(store_->readers());
  }

  TempDir dir_ = TempDir::InMemory();
  StoreOptions options_;
  FaultEnv env_{Env::Posix()};
  std::unique_ptr<Store> store_;
  std::optional<NamedRuns> read_;  // Reads the open store.
};

TEST_F(StoreFaultCaseTest, FailuresCarryTheirReasonAndTheNextAppendGoesOn) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());
  const auto fail_append = [this](absl::Status status) {
    env_.FailAt(1, std::move(status), /*forever=*/true);
    TestChunks chunks(1, 1, RecordsOf(0, 1));
    const absl::Status failure = store_->log().Append(chunks.span());
    env_.StopFailing();
    return failure;
  };
  absl::Status status = fail_append(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(status), "DISK_FULL");
  status = fail_append(absl::UnavailableError("broken"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Reason(status), "STORAGE_FAILED");
  EXPECT_EQ(*store_->log().CommittedChunkCount(kRun, 0, 1), 1u);
  EXPECT_FALSE(read_->GetTensor(RecordsOf(0, 1)[0].key).ok());

  TestChunks again(1, 1, RecordsOf(0, 1));
  ASSERT_TRUE(store_->log().Append(again.span()).ok());
  EXPECT_TRUE(read_->GetTensor(RecordsOf(0, 1)[0].key).ok());
  EXPECT_TRUE(
      std::filesystem::exists(options_.directory + "/segments/00000002.seg") ||
      std::filesystem::exists(options_.directory + "/segments/00000003.seg"));
}

// There are so many records that the index is prepared while they are being
// written.
TEST_F(StoreFaultCaseTest, ManyRecordsAreSeenAtOnceOrNotAtAll) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  constexpr int kChunkCount = 3;
  constexpr int kChunkRecordCount = 100;
  const auto add_chunks = [](TestChunks& chunks) {
    for (int chunk = 0; chunk < kChunkCount; ++chunk) {
      std::vector<TestTensor> records;
      for (int i = 0; i < kChunkRecordCount; ++i) {
        records.push_back(
            MakeTensor(kRun, chunk, "op." + std::to_string(i), 64, 1));
      }
      chunks.Add(1, chunk, records);
    }
  };
  uint64_t number = 1;
  for (;; ++number) {
    TestChunks chunks;
    add_chunks(chunks);
    env_.FailAt(number, absl::UnavailableError("broken"), /*forever=*/true);
    const absl::Status status = store_->log().Append(chunks.span());
    env_.StopFailing();
    if (status.ok()) break;
    EXPECT_EQ(Reason(status), "STORAGE_FAILED");
    EXPECT_EQ(*store_->log().CommittedChunkCount(kRun, 0, 1), 0u);
    EXPECT_EQ(store_->runs().GetRun(kRun)->counters.tensor_count, 0u);
  }
  EXPECT_GE(number, 3u);
  for (int i = 0; i < 2; ++i) {
    const RunCounters counters = store_->runs().GetRun(kRun)->counters;
    EXPECT_EQ(counters.tensor_count, kChunkCount * kChunkRecordCount);
    EXPECT_EQ(counters.duplicate_count, 0u);
    EXPECT_EQ(*store_->log().CommittedChunkCount(kRun, 0, 1), kChunkCount);
    AlignedBuffer buffer;
    for (int chunk = 0; chunk < kChunkCount; ++chunk) {
      const TestTensor expected = MakeTensor(kRun, chunk, "op.99", 64, 1);
      const auto info = read_->GetTensor(expected.key);
      ASSERT_TRUE(info.ok()) << info.status();
      const auto bytes = read_->ReadPart(kRun, info->parts.at(0), buffer);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(std::ranges::equal(*bytes, expected.bytes));
    }
    env_.CutPower(FaultEnv::PowerLoss::kLoseAll, 1);
    Open();
  }
}

TEST_F(StoreFaultCaseTest, ProbeTellsWhetherAppendWouldSucceed) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  EXPECT_TRUE(store_->log().Probe().ok());
  env_.FailAt(1, absl::ResourceExhaustedError("full"), /*forever=*/true);
  TestChunks chunks(1, 0, RecordsOf(0, 0));
  EXPECT_EQ(Reason(store_->log().Append(chunks.span())), "DISK_FULL");
  EXPECT_EQ(Reason(store_->log().Probe()), "DISK_FULL");
  env_.FailAt(1, absl::UnavailableError("broken"), /*forever=*/true);
  EXPECT_EQ(Reason(store_->log().Probe()), "STORAGE_FAILED");
  // Each operation of a probe may fail, and no failure leaves a file.
  int failures = 0;
  for (uint64_t number = 1;; ++number) {
    env_.FailAt(number, absl::UnavailableError("broken"), /*forever=*/true);
    if (store_->log().Probe().ok()) break;
    ++failures;
  }
  EXPECT_GE(failures, 3);
  env_.StopFailing();
  TestChunks again(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(again.span()).ok());
  Open();
  EXPECT_TRUE(read_->GetTensor(RecordsOf(0, 0)[0].key).ok());
  // The segment in use, and the segment of the first Append, which could not be
  // removed.
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 2u);
}

TEST_F(StoreFaultCaseTest, FailedSyncIsNeverTriedAgain) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());
  // Space is already allocated, so the operations are one write and one sync.
  TestChunks second(1, 1, RecordsOf(0, 1));
  env_.FailAt(2, absl::UnavailableError("input/output error"), false);
  EXPECT_EQ(Reason(store_->log().Append(second.span())), "STORAGE_FAILED");
  env_.StopFailing();
  TestChunks again(1, 1, RecordsOf(0, 1));
  ASSERT_TRUE(store_->log().Append(again.span()).ok());
  // The segment whose sync failed ends after the acknowledged data.
  TensorInfo info = *read_->GetTensor(RecordsOf(0, 1)[0].key);
  EXPECT_EQ(info.parts.at(0).place.file, 2u);
  env_.CutPower(FaultEnv::PowerLoss::kLoseAll, 1);
  Open();
  for (int chunk = 0; chunk < 2; ++chunk) {
    EXPECT_TRUE(read_->GetTensor(RecordsOf(0, chunk)[0].key).ok());
  }
}

TEST_F(StoreFaultCaseTest, SegmentThatCouldNotBeRemovedGoesAtTheNextOpen) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks chunks(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  env_.FailAt(1, absl::UnavailableError("busy"), /*forever=*/true);
  ASSERT_TRUE(store_->runs().DeleteRun(kRun).ok());
  const std::string path = options_.directory + "/segments/00000001.seg";
  EXPECT_TRUE(std::filesystem::exists(path));
  env_.StopFailing();
  Open();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
  EXPECT_EQ(Reason(store_->runs().GetRun(kRun).status()), "RUN_NOT_FOUND");
}

TEST_F(StoreFaultCaseTest, ReadErrorAtOpenIsReportedAndNothingIsCutOff) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks chunks(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  Close();
  const std::string path = options_.directory + "/segments/00000001.seg";
  const auto size = std::filesystem::file_size(path);
  int failures = 0;
  for (uint64_t number = 1;; ++number) {
    env_.FailAt(number, absl::UnavailableError("bad sector"), false);
    const auto store = Store::Open(options_, env_);
    EXPECT_EQ(std::filesystem::file_size(path), size);
    if (store.ok()) break;
    EXPECT_EQ(store.status().code(), absl::StatusCode::kUnavailable);
    ++failures;
  }
  EXPECT_GT(failures, 5);
}

// If a daemon restarts between the write of a frame and its sync, it finds the
// complete frame in the page cache, and acknowledges it to the producer.
TEST_F(StoreFaultCaseTest, RecoveredFramesAreDurableBeforeTheyCount) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());
  // The write succeeds. The sync fails, and so do all operations that would
  // undo the write.
  TestChunks second(1, 1, RecordsOf(0, 1));
  env_.FailAt(2, absl::UnavailableError("killed"), /*forever=*/true);
  EXPECT_FALSE(store_->log().Append(second.span()).ok());
  env_.StopFailing();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 2u);
  const uint64_t count = *store_->log().CommittedChunkCount(kRun, 0, 1);
  EXPECT_EQ(count, 2u);
  Close();
  env_.CutPower(FaultEnv::PowerLoss::kLoseAll, 1);
  Open();
  EXPECT_EQ(*store_->log().CommittedChunkCount(kRun, 0, 1), count);
  AlignedBuffer buffer;
  for (int chunk = 0; chunk < static_cast<int>(count); ++chunk) {
    for (const TestTensor& tensor : RecordsOf(0, chunk)) {
      const auto info = read_->GetTensor(tensor.key);
      ASSERT_TRUE(info.ok()) << info.status();
      const auto bytes = read_->ReadPart(kRun, info->parts.at(0), buffer);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(std::ranges::equal(*bytes, tensor.bytes));
    }
  }
}

// The space of an almost full disk is reserved for operations that cannot wait.
TEST_F(StoreFaultCaseTest, LittleRoomRefusesWhatIsNewAndNothingElse) {
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
  const auto comparison = store_->comparisons().CreateComparison("running", {});
  ASSERT_TRUE(comparison.ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());

  env_.LimitFreeBytes(1 << 20);
  TestChunks second(1, 1, RecordsOf(0, 1));
  EXPECT_EQ(Reason(store_->log().Append(second.span())), "DISK_FULL");
  EXPECT_EQ(Reason(store_->log().Probe()), "DISK_FULL");
  EXPECT_EQ(Reason(store_->runs().CreateRun({"more", 0, {}}).status()),
            "DISK_FULL");
  EXPECT_EQ(Reason(store_->comparisons().CreateComparison("more", {}).status()),
            "DISK_FULL");
  const std::vector<std::string> rows = {"row"};
  EXPECT_EQ(
      Reason(store_->comparisons().PutComparisonRows(*comparison, 0, rows)),
      "DISK_FULL");
  EXPECT_TRUE(
      store_->comparisons().PutComparison(*comparison, "ended early").ok());
  EXPECT_TRUE(
      store_->log().ReportCoverage(kRun, 0, 1, {.dropped_count = 2}).ok());
  EXPECT_TRUE(store_->runs().SealRun(kRun).ok());
  EXPECT_TRUE(read_->GetTensor(RecordsOf(0, 0)[0].key).ok());
  EXPECT_TRUE(store_->runs().DeleteRun("other").ok());
  EXPECT_TRUE(store_->comparisons().DeleteComparison(*comparison).ok());

  env_.LimitFreeBytes(UINT64_MAX);
  EXPECT_TRUE(store_->log().Probe().ok());
  EXPECT_TRUE(store_->runs().CreateRun({"more", 0, {}}).ok());
}

// RocksDB treats some errors, such as too many open files, as fatal. They must
// not last longer than their cause.
TEST_F(StoreFaultCaseTest, IndexThatCannotResumeIsOpenedAnewBelowItsReaders) {
  Open();
  env_.CountIndex();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());
  const TestTensor known = RecordsOf(0, 0)[0];
  auto before = read_->Scan(kRun, {}, "");
  ASSERT_TRUE(before.ok());
  // Readers run all the time. They get the data or a request to retry, but
  // never "not found".
  std::atomic<bool> ends = false;
  std::atomic<int> found_count = 0;
  const auto read = [&] {
    while (!ends) {
      const absl::Status got = read_->GetTensor(known.key).status();
      EXPECT_TRUE(got.ok() || absl::IsUnavailable(got)) << got;
      TensorInfo info;
      auto scan = read_->Scan(kRun, {}, "");
      const absl::StatusOr<bool> next =
          scan.ok() ? (*scan)->Next(info) : scan.status();
      EXPECT_TRUE(next.value_or(true)) << "nothing was found";
      EXPECT_TRUE(next.ok() || absl::IsUnavailable(next.status()))
          << next.status();
      if (next.ok()) ++found_count;
    }
  };
  // Reopening the index changes the statistics, so a thread reads them, too.
  const auto count = [&] {
    while (!ends) EXPECT_EQ(store_->upkeep().Stats().run_count, 1u);
  };
  std::thread readers[] = {std::thread(read), std::thread(read),
                           std::thread(count)};

  env_.FailAt(1, absl::UnavailableError("too many open files"), true);
  EXPECT_FALSE(store_->runs().CreateRun({"more", 0, {}}).ok());
  TestChunks second(1, 1, RecordsOf(0, 1));
  EXPECT_EQ(Reason(store_->log().Append(second.span())), "STORAGE_FAILED");
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(Reason(store_->log().Probe()), "STORAGE_FAILED");
  }
  env_.StopFailing();
  // The store recovers without a restart.
  absl::Status status;
  for (int i = 0; i < 6; ++i) {
    status = store_->log().Probe();
    if (status.ok()) break;
  }
  EXPECT_TRUE(status.ok()) << status;
  const int found_before = found_count;
  while (found_count < found_before + 2) std::this_thread::yield();
  ends = true;
  for (std::thread& reader : readers) reader.join();

  TestChunks again(1, 1, RecordsOf(0, 1));
  EXPECT_TRUE(store_->log().Append(again.span()).ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount(kRun, 0, 1), 2u);
  EXPECT_TRUE(store_->runs().CreateRun({"more", 0, {}}).ok());
  EXPECT_EQ(store_->runs().GetRun(kRun)->counters.tensor_count, 4u);
  EXPECT_EQ(store_->runs().GetRun(kRun)->counters.duplicate_count, 0u);
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (const TestTensor& tensor : RecordsOf(0, chunk)) {
      EXPECT_TRUE(read_->GetTensor(tensor.key).ok());
    }
  }
  // A scan that was started before gets an error.
  TensorInfo info;
  EXPECT_EQ((*before)->Next(info).status().code(),
            absl::StatusCode::kUnavailable);
  before->reset();
  EXPECT_TRUE(store_->Close().ok());
}

TEST_F(StoreFaultCaseTest, IndexThatIsAwayIsNotMadeAnewAndComesBack) {
  Open();
  env_.CountIndex();
  ASSERT_TRUE(store_->runs().CreateRun({kRun, 0, {}}).ok());
  TestChunks first(1, 0, RecordsOf(0, 0));
  ASSERT_TRUE(store_->log().Append(first.span()).ok());
  const std::string index = options_.directory + "/index";
  env_.FailAt(1, absl::UnavailableError("too many open files"), true);
  EXPECT_FALSE(store_->runs().CreateRun({"more", 0, {}}).ok());
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(store_->log().Probe().ok());
  std::filesystem::rename(index, dir_ / "away");
  env_.StopFailing();
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(store_->log().Probe().ok());
    store_->upkeep().Retain(RetentionPolicy()).status().IgnoreError();
    store_->upkeep().Share().status().IgnoreError();
    EXPECT_FALSE(std::filesystem::exists(index + "/CURRENT"));
  }
  std::filesystem::remove_all(index);
  std::filesystem::rename(dir_ / "away", index);
  absl::Status status;
  for (int i = 0; i < 6; ++i) {
    status = store_->log().Probe();
    if (status.ok()) break;
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(read_->GetTensor(RecordsOf(0, 0)[0].key).ok());
  const absl::Status retained =
      store_->upkeep().Retain(RetentionPolicy()).status();
  EXPECT_TRUE(retained.ok()) << retained;
  EXPECT_TRUE(store_->Close().ok());
}

}  // namespace
}  // namespace msitd::storage
