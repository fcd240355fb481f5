// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/archive_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "daemon/archive/run_restorer.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/compute/digest.h"
#include "storage/archive/archive_reader.h"
#include "storage/batch/entry_batch.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::archive {
namespace {

namespace fs = std::filesystem;
using msitd::testing::MakeAlias;
using msitd::testing::MakeDigest;
using msitd::testing::MakeStatistics;
using msitd::testing::MakeTensor;
using msitd::testing::MakeValue;
using msitd::testing::TestChunks;
using msitd::testing::TestTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = ArchiveJob::State;

class ArchiveJobsTest : public storage::StoreTest {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "archive");
    url_ = "file://" + (dir_ / "archive");
    places_ = *storage::ArchivePlaces::Create({.urls = {url_}, .s3 = {}});
    OpenWithRun("r");
    pipeline_.emplace(store_->runs(), store_->log(), ingest::IngestOptions());
  }

  void TearDown() override {
    jobs_.reset();
    pipeline_.reset();
  }

  void StartJobs(const std::string& archive_url = "",
                 std::chrono::milliseconds retry_interval =
                     std::chrono::milliseconds(60'000)) {
    ArchiveJobs::Options options;
    options.retry_interval = retry_interval;
    options.archive_url = archive_url;
    options.look_interval = std::chrono::milliseconds(20);
    options.nice = 0;
    jobs_.emplace(
        ArchiveJobs::World{store_->runs(), store_->readers(),
                           store_->attachments(), store_->comparisons(),
                           *places_, *pipeline_},
        options);
  }

  ArchiveJob Await(const absl::StatusOr<ArchiveJob>& begun) {
    EXPECT_TRUE(begun.ok()) << begun.status();
    if (!begun.ok()) return {};
    while (true) {
      const ArchiveJob job = *jobs_->Get(begun->id);
      if (job.state == State::kDone || job.state == State::kFailed) return job;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  absl::Status AppendTo(uint64_t stream, uint64_t number, uint32_t flags,
                        const std::vector<TestTensor>& records) {
    TestChunks chunks(stream, number, records);
    chunk::Chunk& chunk = chunks.span()[0];
    chunk.header().flags |= flags;
    for (chunk::RecordDescriptor& record : chunk.records()) {
      if (!chunk.HasOwnBytes(record) || chunk::HasDigest(record)) continue;
      record.summary = compute::Summarize(chunk.PayloadOf(record),
                                          static_cast<DType>(record.dtype));
    }
    return store_->log().Append(chunks.span());
  }

  // Records ranks with interleaved tokens, and all kinds of records.
  void FillRun() {
    uint64_t number = 0;
    for (int64_t token = 0; token < 3; ++token) {
      for (const char* const op : {"b", "a", "c"}) {
        for (int rank = 0; rank < 2; ++rank) {
          TestTensor tensor =
              MakeTensor("r", token, op, 640, 1 + rank + 10 * token);
          tensor.key.rank = rank;
          tensor.sequence = number;
          TestTensor alias = MakeAlias(tensor, std::string("view ") + op);
          alias.sequence = number + 1;
          TestTensor value =
              MakeValue("r", token, RecordKind::kNumber, op, "1.5");
          value.key.rank = rank;
          value.sequence = number + 2;
          TestTensor statistics = MakeStatistics(
              "r", token, std::string("stat ") + op, "{\"mean\": 1}");
          statistics.key.rank = rank;
          statistics.sequence = number + 3;
          statistics.stack = "a stack";
          ASSERT_TRUE(AppendTo(kStream + rank, number++ / 2, 0,
                               {tensor, alias, value, statistics})
                          .ok());
        }
      }
    }
    TestTensor large = MakeTensor("r", 7, "large", kPartBytes + 64, 3);
    TestTensor rest = large;
    rest.part = 1;
    ASSERT_TRUE(AppendTo(5, 0, 0, {large}).ok());
    ASSERT_TRUE(AppendTo(5, 1, 0, {rest}).ok());
    TestTensor claimed = MakeTensor("r", 8, "claimed", 640);
    claimed.digest = MakeDigest(640, 9);
    claimed.is_sent = false;
    ASSERT_TRUE(AppendTo(5, 2, chunk::kSummaryOnlyFlag, {claimed}).ok());
    StreamCoverage coverage;
    coverage.seen_count = 50;
    coverage.dropped_count = 3;
    ASSERT_TRUE(store_->log().ReportCoverage("r", 0, 5, coverage).ok());
  }

  std::vector<storage::TensorInfo> Entries(const std::string& run) {
    std::vector<storage::TensorInfo> out;
    Selector all;
    for (int kind = 0; kind < kRecordKindCount; ++kind) {
      all.kinds.push_back(static_cast<RecordKind>(kind));
    }
    const auto reader = *store_->readers().OpenRun(run);
    const auto scan = *reader->Scan(all, "");
    storage::TensorInfo entry;
    while (*scan->Next(entry)) out.push_back(entry);
    return out;
  }

  std::string url_;
  std::unique_ptr<storage::ArchivePlaces> places_;
  std::optional<ingest::IngestPipeline> pipeline_;
  std::optional<ArchiveJobs> jobs_;
};

TEST_F(ArchiveJobsTest, ARunComesBackAsItWas) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  auto writer =
      store_->attachments().Begin({"r", "graph", "text/plain", false});
  ASSERT_TRUE((*writer)->Append("hello").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  StartJobs();
  const ArchiveJob archived =
      Await(jobs_->Archive("r", url_, false, access::Daemon()));
  ASSERT_TRUE(archived.status.ok()) << archived.status;
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  ASSERT_TRUE(restored.status.ok()) << restored.status;
  // In the restored run, the daemon has computed the summaries of statistics.
  EXPECT_EQ(Entries("r").size(), Entries("s").size());
  ASSERT_TRUE(
      Await(jobs_->Archive("s", url_, false, access::Daemon())).status.ok());
  const ArchiveJob again =
      Await(jobs_->Restore(url_, "s", "u", access::Daemon()));
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_THAT(again.differences, IsEmpty());
  const auto before = Entries("s");
  const auto after = Entries("u");
  ASSERT_EQ(before.size(), after.size());
  storage::EntryHasher hasher;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].key.op, after[i].key.op);
    EXPECT_EQ(hasher.Hash(before[i]), hasher.Hash(after[i]))
        << before[i].key.op;
    // The order of arrival is kept.
    for (size_t j = 0; j < i; ++j) {
      if (before[i].tensor_bytes == 0 || before[j].tensor_bytes == 0) continue;
      EXPECT_EQ(before[i].parts[0].place <=> before[j].parts[0].place,
                after[i].parts[0].place <=> after[j].parts[0].place)
          << before[i].key.op << " " << before[j].key.op;
    }
  }
  const storage::RunInfo old = *store_->runs().GetRun("r");
  const storage::RunInfo now = *store_->runs().GetRun("s");
  EXPECT_TRUE(now.sealed);
  EXPECT_EQ(now.counters.tensor_count, old.counters.tensor_count);
  EXPECT_EQ(now.counters.payload_bytes, old.counters.payload_bytes);
  EXPECT_EQ(now.counters.value_count, old.counters.value_count);
  EXPECT_EQ(now.counters.statistics_count, old.counters.statistics_count);
  EXPECT_EQ(now.counters.dropped_count, old.counters.dropped_count);
  const auto attachment = store_->attachments().GetAttachment("s", "graph");
  ASSERT_TRUE(attachment.ok());
  EXPECT_EQ(*store_->attachments().ReadAttachment(*attachment, 0, 5), "hello");
}

TEST_F(ArchiveJobsTest, ARankMayHaveCountedSeveralTimes) {
  for (uint64_t stream = 0; stream < 3; ++stream) {
    for (uint64_t sequence = 0; sequence < 4; ++sequence) {
      TestTensor tensor =
          MakeTensor("r", 1, fmt::format("op.{}.{}", stream, sequence), 640,
                     static_cast<uint8_t>(stream));
      tensor.sequence = sequence;
      ASSERT_TRUE(AppendTo(kStream + stream, sequence, 0, {tensor}).ok());
    }
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  ASSERT_TRUE(restored.status.ok()) << restored.status;
  EXPECT_THAT(restored.differences, IsEmpty());
}

TEST_F(ArchiveJobsTest, SaysWhatDoesNotComeBack) {
  ASSERT_TRUE(
      AppendTo(5, 0, chunk::kSampleFlag, {MakeTensor("r", 0, "sampled", 64000)})
          .ok());
  ASSERT_TRUE(AppendTo(5, 1, chunk::kSummaryOnlyFlag,
                       {MakeTensor("r", 1, "summary", 640)})
                  .ok());
  TestTensor large = MakeTensor("r", 2, "large", kPartBytes + 64, 3);
  TestTensor rest = large;
  rest.part = 1;
  ASSERT_TRUE(AppendTo(5, 2, chunk::kSummaryOnlyFlag, {large}).ok());
  ASSERT_TRUE(AppendTo(5, 3, chunk::kSummaryOnlyFlag, {rest}).ok());
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  ASSERT_TRUE(restored.status.ok()) << restored.status;
  EXPECT_THAT(restored.differences,
              ElementsAre(HasSubstr("1 tensors of several parts"),
                          HasSubstr("1 tensors have no sample"),
                          HasSubstr("1 records differ")));
}

TEST_F(ArchiveJobsTest, AFailedRestoreLeavesNothing) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  for (const auto& entry : fs::directory_iterator(dir_ / "archive/r")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("directory-") || name.starts_with("index-")) {
      fs::resize_file(entry.path(), 100);
    }
  }
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  EXPECT_TRUE(absl::IsDataLoss(restored.status)) << restored.status;
  EXPECT_FALSE(store_->runs().GetRun("s").ok());
}

// Damage affects only the items that it hits, and these are counted.
TEST_F(ArchiveJobsTest, ARestorePassesOverDamage) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  auto writer =
      store_->attachments().Begin({"r", "graph", "text/plain", false});
  ASSERT_TRUE((*writer)->Append("hello").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  const size_t entry_count = Entries("r").size();
  for (const std::string kind : {"pack-", "index-", "attachment-"}) {
    SCOPED_TRACE(kind);
    fs::path file;
    for (const auto& entry : fs::directory_iterator(dir_ / "archive/r")) {
      if (entry.path().filename().string().starts_with(kind)) {
        file = entry.path();
      }
    }
    const auto flip = [&] {
      std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
      bytes.seekg(100 % static_cast<std::streamoff>(fs::file_size(file)));
      const int byte = bytes.get();
      bytes.seekp(100 % static_cast<std::streamoff>(fs::file_size(file)));
      bytes.put(static_cast<char>(byte ^ 1));
    };
    flip();
    const ArchiveJob restored =
        Await(jobs_->Restore(url_, "r", kind, access::Daemon()));
    flip();
    ASSERT_TRUE(restored.status.ok()) << restored.status;
    const storage::UnreadableItems& unreadable = restored.unreadable;
    EXPECT_FALSE(restored.differences.empty());
    ASSERT_FALSE(unreadable.texts.empty());
    const storage::RunInfo run = *store_->runs().GetRun(kind);
    EXPECT_TRUE(run.sealed);
    EXPECT_EQ(store_->attachments().GetAttachment(kind, "graph").ok(),
              kind != "attachment-");
    EXPECT_EQ(unreadable.attachment_count, kind == "attachment-" ? 1U : 0U);
    const auto reader = *store_->readers().OpenRun(kind);
    uint64_t dropped = 0;
    uint64_t truncated = 0;
    const auto coverage = *reader->ListCoverage();
    for (const storage::RankCoverage& rank : coverage) {
      dropped += rank.total.dropped_count;
      truncated += rank.total.truncated_count;
    }
    EXPECT_EQ(truncated, kind == "pack-" ? unreadable.tensor_count : 0U);
    EXPECT_EQ(dropped, 3U + (kind == "index-" ? unreadable.tensor_count : 0U));
    if (kind == "pack-") {
      // The ops a, b and c of rank 0 have equal bytes, and each has an alias.
      EXPECT_EQ(unreadable.tensor_count, 6U);
      EXPECT_EQ(Entries(kind).size(), entry_count);
    }
  }
}

TEST_F(ArchiveJobsTest, ADamagedDirectoryCostsARestoreNothing) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  for (const auto& entry : fs::directory_iterator(dir_ / "archive/r")) {
    if (entry.path().filename().string().starts_with("directory-")) {
      std::fstream bytes(entry.path(),
                         std::ios::binary | std::ios::in | std::ios::out);
      bytes.seekp(30);
      bytes.put('\x55');
    }
  }
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  ASSERT_TRUE(restored.status.ok()) << restored.status;
  EXPECT_TRUE(restored.unreadable.empty());
  EXPECT_THAT(restored.differences,
              ::testing::Contains(HasSubstr("directory of the archive")));
  EXPECT_EQ(Entries("r").size(), Entries("s").size());
  EXPECT_EQ(store_->runs().GetRun("s")->counters.payload_bytes,
            store_->runs().GetRun("r")->counters.payload_bytes);
}

TEST_F(ArchiveJobsTest, MoreRanksThanStreamsAreRestored) {
  constexpr int kRanks = 300;
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < kRanks; ++i) {
      // Tensors that are adjacent in time are from distant ranks.
      const int rank = i * 7 % kRanks;
      TestTensor tensor = MakeTensor("r", turn, "op", 640, 1 + rank);
      tensor.key.rank = rank;
      tensor.sequence = turn;
      ASSERT_TRUE(AppendTo(kStream + rank, turn, 0, {tensor}).ok());
    }
  }
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  const ArchiveJob restored =
      Await(jobs_->Restore(url_, "r", "s", access::Daemon()));
  ASSERT_TRUE(restored.status.ok()) << restored.status;
  EXPECT_THAT(restored.differences, IsEmpty());
  const auto before = Entries("r");
  const auto after = Entries("s");
  ASSERT_EQ(before.size(), size_t{2} * kRanks);
  ASSERT_EQ(after.size(), before.size());
  storage::EntryHasher hasher;
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(hasher.Hash(before[i]), hasher.Hash(after[i]));
    if (i == 0) continue;
    ASSERT_EQ(before[i].parts[0].place <=> before[i - 1].parts[0].place,
              after[i].parts[0].place <=> after[i - 1].parts[0].place);
  }
}

TEST_F(ArchiveJobsTest, WhatABrokenRestoreLeftIsReplacedOrRemoved) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_EQ(Await(jobs_->Archive("r", url_, false, access::Daemon())).state,
            State::kDone);
  storage::RunSpec spec;
  spec.name = "half";
  spec.restoring = true;
  ASSERT_TRUE(store_->runs().CreateRun(spec).ok());
  ASSERT_TRUE(
      store_->log()
          .Append(TestChunks(9, 0, {MakeTensor("half", 0, "op", 640)}).span())
          .ok());
  EXPECT_EQ(Reason(store_->readers().OpenRun("half").status()),
            "RUN_RESTORING");
  EXPECT_TRUE(store_->readers().OpenRunAsItIs("half").ok());
  EXPECT_EQ(Reason(pipeline_->runs()
                       .SealRun("half", {"uid:1", access::Role::kAdmin})
                       .status()),
            "RUN_RESTORING");
  EXPECT_EQ(Await(jobs_->Restore(url_, "r", "half", access::Daemon())).state,
            State::kDone);
  const storage::RunInfo whole = *store_->runs().GetRun("half");
  EXPECT_FALSE(whole.spec.restoring);
  EXPECT_TRUE(whole.sealed);
  EXPECT_TRUE(store_->readers().OpenRun("half").ok());

  spec.name = "rest";
  ASSERT_TRUE(store_->runs().CreateRun(spec).ok());
  jobs_.reset();
  pipeline_.reset();
  store_.reset();
  Open();
  pipeline_.emplace(store_->runs(), store_->log(), ingest::IngestOptions());
  EXPECT_TRUE(store_->runs().GetRun("rest")->spec.restoring);
  RemoveBrokenRestores(store_->runs(), *pipeline_);
  EXPECT_TRUE(absl::IsNotFound(store_->runs().GetRun("rest").status()));
  EXPECT_TRUE(store_->runs().GetRun("half").ok());
}

TEST_F(ArchiveJobsTest, ANewRunOfTheNameOutlivesARestore) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_EQ(Await(jobs_->Archive("r", url_, false, access::Daemon())).state,
            State::kDone);
  // The new run is created at each possible time.
  for (uint64_t at = 0; at < 8; ++at) {
    uint64_t calls = 0;
    storage::RunSpec spec;
    spec.name = "new";
    const auto restored =
        RestoreRun({.store = *places_->Open(url_),
                    .archived_run = "r",
                    .run = "new",
                    .caller = access::Daemon(),
                    .runs = store_->runs(),
                    .readers = store_->readers(),
                    .attachments = store_->attachments(),
                    .comparisons = store_->comparisons(),
                    .pipeline = *pipeline_},
                   [&](uint64_t, uint64_t) {
                     if (calls++ == at) {
                       EXPECT_TRUE(pipeline_->runs().DeleteRun("new").ok());
                       EXPECT_TRUE(store_->runs().CreateRun(spec).ok());
                     }
                     return absl::OkStatus();
                   });
    if (calls <= at) {
      EXPECT_TRUE(restored.ok()) << restored.status();
      ASSERT_GT(at, 0U);
      break;
    }
    EXPECT_FALSE(restored.ok()) << at;
    const auto there = store_->runs().GetRun("new");
    ASSERT_TRUE(there.ok()) << at;
    EXPECT_FALSE(there->sealed || there->spec.restoring);
    EXPECT_EQ(there->counters.record_count(), 0U);
    ASSERT_TRUE(pipeline_->runs().DeleteRun("new").ok());
  }
}

TEST_F(ArchiveJobsTest, ARunOfThatNameIsInTheWay) {
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  EXPECT_EQ(Reason(jobs_->Restore(url_, "r", "", access::Daemon()).status()),
            "RUN_EXISTS");
  EXPECT_EQ(
      Reason(Await(jobs_->Restore(url_, "none", "", access::Daemon())).status),
      "RUN_NOT_FOUND");
}

TEST_F(ArchiveJobsTest, RefusesAnActiveRunAndAnotherPlace) {
  StartJobs();
  EXPECT_EQ(jobs_->Archive("r", url_, false, access::Daemon()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(jobs_->Archive("r", "file:///srv/none", false, access::Daemon())
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Reason(jobs_->Archive("x", url_, false, access::Daemon()).status()),
            "RUN_NOT_FOUND");
}

TEST_F(ArchiveJobsTest, BytesAreGivenUpLast) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, true, access::Daemon())).status.ok());
  EXPECT_EQ(store_->runs().GetRun("r")->retention.limits.bytes_max, 1U);
  EXPECT_TRUE(fs::exists(dir_ / "archive/r/manifest"));
}

// Makes the bytes of the first tensor of "r", and equal bytes, unreadable.
void BreakFirstTensor(storage::RunReader& run, const std::string& directory) {
  AlignedBuffer buffer;
  const auto scan = *run.Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*scan->Next(entry));
  const auto bytes = *run.ReadPart(entry.parts[0], buffer);
  const std::string wanted(reinterpret_cast<const char*>(bytes.data()),
                           bytes.size());
  int found = 0;
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    if (!file.is_regular_file()) continue;
    std::fstream all(file.path(),
                     std::ios::binary | std::ios::in | std::ios::out);
    const std::string text((std::istreambuf_iterator<char>(all)), {});
    for (size_t at = text.find(wanted); at != std::string::npos;
         at = text.find(wanted, at + wanted.size())) {
      all.clear();
      all.seekp(static_cast<std::streamoff>(at));
      all.put(static_cast<char>(text[at] ^ 1));
      ++found;
    }
  }
  ASSERT_GE(found, 1);
}

TEST_F(ArchiveJobsTest, BytesThatTheArchiveLacksAreNotGivenUp) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  BreakFirstTensor(**store_->readers().OpenRun("r"), dir_ / "store");
  StartJobs();
  const ArchiveJob job =
      Await(jobs_->Archive("r", url_, true, access::Daemon()));
  EXPECT_EQ(job.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(job.status)), HasSubstr("not given up"));
  // Three tensors have equal bytes, and each has an alias.
  EXPECT_EQ(job.unreadable.tensor_count, 6U);
  EXPECT_EQ(store_->runs().GetRun("r")->retention.limits.bytes_max, 0U);
  EXPECT_TRUE(fs::exists(dir_ / "archive/r/manifest"));
}

TEST_F(ArchiveJobsTest, ARottenTensorIsReadOnceByAutomaticArchives) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  BreakFirstTensor(**store_->readers().OpenRun("r"), dir_ / "store");
  StartJobs(url_);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  EXPECT_EQ(jobs_->Counts().pending_count + jobs_->Counts().running_count +
                jobs_->Counts().archived_count,
            1U);
  while (jobs_->Counts().archived_count == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(jobs_->Counts().incomplete_count, 1U);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(jobs_->List().size(), 1U);
  const auto archived = jobs_->OfRun(*store_->runs().GetRun("r"));
  EXPECT_EQ(archived->unreadable_count, 6U);
  EXPECT_EQ(archived->retry_time_ns, 0);
}

class MissingSegmentTest : public ArchiveJobsTest {
 protected:
  void TearDown() override {
    ArchiveJobsTest::TearDown();
    store_.reset();
  }

  // Seals a run whose bytes are in a missing segment.
  void SealWithoutSegment() {
    FillRun();
    ASSERT_TRUE(store_->runs().SealRun("r").ok());
    Restart([this] { fs::rename(SegmentPath(1), Hidden()); });
    ASSERT_GT(store_->runs().GetRun("r")->counters.missing_bytes, 0U);
  }

  // Reopens the store, and calls `between` while it is closed.
  template <typename Between>
  void Restart(Between between) {
    jobs_.reset();
    pipeline_.reset();
    ASSERT_TRUE(store_->Close().ok());
    store_.reset();
    between();
    ASSERT_TRUE(TryOpen(env_).ok());
    pipeline_.emplace(store_->runs(), store_->log(), ingest::IngestOptions());
  }

  std::string Hidden() const { return dir_ / "hidden"; }

  // Restores the segment and lets the store detect it.
  void Return() {
    fs::rename(Hidden(), SegmentPath(1));
    env_.AdvanceClock(int64_t{60} * 1'000'000'000);
    ASSERT_TRUE(store_->upkeep().Retain({}).ok());
    ASSERT_EQ(store_->runs().GetRun("r")->counters.missing_bytes, 0U);
  }

  template <typename Condition>
  void WaitUntil(Condition condition) {
    for (int tries = 0; !condition(); ++tries) {
      ASSERT_LT(tries, 6000);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  void WaitUntilIncomplete() {
    WaitUntil([this] { return jobs_->Counts().incomplete_count == 1; });
  }

  void ExpectWhole() {
    WaitUntil([this] {
      const ArchiveCounts counts = jobs_->Counts();
      return counts.archived_count == 1 && counts.incomplete_count == 0;
    });
    const auto manifest = storage::ReadManifest(**places_->Open(url_), "r");
    ASSERT_TRUE(manifest.ok() && manifest->unreadable.empty());
    EXPECT_EQ(jobs_->OfRun(*store_->runs().GetRun("r"))->unreadable_count, 0U);
  }

  msitd::testing::FaultEnv env_{storage::Env::Posix()};
};

TEST_F(MissingSegmentTest, AnArchiveIsCompletedOnceTheSegmentIsBack) {
  SealWithoutSegment();
  StartJobs(url_);
  WaitUntilIncomplete();
  WaitUntil([this] {
    return jobs_->OfRun(*store_->runs().GetRun("r"))->retry_time_ns > 0;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(jobs_->List().size(), 1U);
  Return();
  ExpectWhole();
}

TEST_F(MissingSegmentTest, AnArchiveIsCompletedAfterARestart) {
  SealWithoutSegment();
  StartJobs(url_);
  WaitUntilIncomplete();
  Restart([this] { fs::rename(Hidden(), SegmentPath(1)); });
  StartJobs(url_);
  ExpectWhole();
}

// The daemon detects only by archiving again that a file is back.
TEST_F(MissingSegmentTest, AnArchiveIsCompletedThoughTheGapWasNotNoticed) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  Restart([] {});
  fs::rename(SegmentPath(1), Hidden());
  StartJobs(url_, std::chrono::milliseconds(20));
  WaitUntilIncomplete();
  EXPECT_EQ(store_->runs().GetRun("r")->counters.missing_bytes, 0U);
  fs::rename(Hidden(), SegmentPath(1));
  ExpectWhole();
}

TEST_F(ArchiveJobsTest, AnErrorThatStaysIsNotTriedAgain) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  fs::create_directory(dir_ / "archive/r");
  std::ofstream(dir_ / "archive/r/manifest") << "no manifest";
  StartJobs(url_, std::chrono::milliseconds(20));
  const storage::RunInfo run = *store_->runs().GetRun("r");
  const auto wait_for = [&](State state) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (jobs_->OfRun(run)->state != state) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  wait_for(State::kFailed);
  EXPECT_TRUE(absl::IsDataLoss(jobs_->OfRun(run)->last));
  const uint64_t change = jobs_->OfRun(run)->change;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(jobs_->OfRun(run)->change, change);
  EXPECT_EQ(jobs_->OfRun(run)->retry_time_ns, 0);
  // An error that may be transient is retried.
  fs::remove_all(dir_ / "archive/r");
  fs::permissions(dir_ / "archive", fs::perms::none);
  jobs_.reset();
  if (::geteuid() != 0) {
    StartJobs(url_, std::chrono::milliseconds(20));
    wait_for(State::kFailed);
    EXPECT_GT(jobs_->OfRun(run)->retry_time_ns, 0);
  }
  fs::permissions(dir_ / "archive", fs::perms::all);
  jobs_.reset();
  StartJobs(url_, std::chrono::milliseconds(20));
  wait_for(State::kDone);
}

TEST_F(ArchiveJobsTest, ARunThatTakesTheNameLaterIsNotArchived) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  // Other runs are archived first.
  std::vector<std::string> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(fmt::format("other-{}", i));
    ASSERT_TRUE(store_->runs().CreateRun({others.back(), 0, {}}).ok());
    ASSERT_TRUE(store_->runs().SealRun(others.back()).ok());
  }
  StartJobs();
  for (const std::string& other : others) {
    ASSERT_TRUE(jobs_->Archive(other, url_, false, access::Daemon()).ok());
  }
  const auto asked = jobs_->Archive("r", url_, true, access::Daemon());
  ASSERT_TRUE(pipeline_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const auto second = jobs_->Archive("r", url_, true, access::Daemon());
  EXPECT_NE(asked->id, second->id);
  const ArchiveJob job = Await(asked);
  EXPECT_EQ(job.state, State::kFailed);
  EXPECT_EQ(Reason(job.status), "RUN_REPLACED");
  EXPECT_EQ(Await(second).state, State::kDone);
}

TEST_F(ArchiveJobsTest, SealedRunsGoByThemselves) {
  FillRun();
  StartJobs(url_);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(fs::exists(dir_ / "archive/r"));
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!fs::exists(dir_ / "archive/r/manifest")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(jobs_->List().at(0).is_automatic);
  const storage::RunInfo run = *store_->runs().GetRun("r");
  while (jobs_->OfRun(run)->state != State::kDone) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(jobs_->OfRun(run)->url, url_);
  EXPECT_EQ(jobs_->Counts().archived_count, 1U);
  EXPECT_GT(jobs_->Counts().sent_bytes, 0U);
  // Jobs that are started again find the run in the archive.
  jobs_.reset();
  StartJobs(url_);
  EXPECT_TRUE(jobs_->OfRun(run).has_value());
  while (jobs_->Counts().archived_count == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(jobs_->OfRun(run)->state, State::kDone);
  EXPECT_EQ(jobs_->Counts().sent_bytes, 0U);
  // Deleted runs are not counted.
  ASSERT_TRUE(pipeline_->runs().DeleteRun("r").ok());
  while (jobs_->Counts().archived_count != 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The daemon may stop after it archives a run and before its comparisons.
TEST_F(ArchiveJobsTest, ComparisonsThatTheArchiveLacksComeLater) {
  FillRun();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  StartJobs();
  ASSERT_TRUE(
      Await(jobs_->Archive("r", url_, false, access::Daemon())).status.ok());
  jobs_.reset();
  v1::Comparison comparison;
  comparison.set_golden_run("g");
  comparison.set_target_run("r");
  comparison.set_state(v1::Comparison::DONE);
  const std::vector<std::string> runs = {"r"};
  // The first comparison lacks rows. The other one is archived nevertheless.
  for (const int64_t count : {5, 0}) {
    comparison.set_pass_count(count);
    ASSERT_TRUE(store_->comparisons()
                    .CreateComparison(comparison.SerializeAsString(), runs)
                    .ok());
  }
  StartJobs(url_);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (jobs_->Counts().archived_count == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_EQ(jobs_->List().size(), 1U);
  EXPECT_EQ(jobs_->List()[0].comparison_count, 1U);
  EXPECT_EQ(jobs_->List()[0].left_comparison_count, 1U);
  int found = 0;
  for (const auto& file : fs::directory_iterator(dir_ / "archive/r")) {
    found += file.path().filename().string().starts_with("comparison-");
  }
  EXPECT_EQ(found, 1);
  // The job is not repeated.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(jobs_->List().size(), 1U);
}

}  // namespace
}  // namespace msitd::archive
