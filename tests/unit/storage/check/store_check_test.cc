// SPDX-License-Identifier: Apache-2.0
#include "storage/check/store_check.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "storage/inspect/inspect_command.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace fs = std::filesystem;

class StoreCheckTest : public StoreTest {
 protected:
  struct Output {
    InspectExit exit;
    std::string out;
    std::string err;
  };

  // Runs the command as a shell would.
  Output Inspect(const std::string& verb) {
    return Run({verb.c_str(), "--data-dir", options_.directory.c_str()});
  }

  static Output Run(std::vector<const char*> argv) {
    argv.insert(argv.begin(), "msitd-inspect");
    std::ostringstream out;
    std::ostringstream err;
    const InspectExit exit =
        RunInspect(static_cast<int>(argv.size()), argv.data(), out, err);
    return {exit, out.str(), err.str()};
  }

  std::vector<StoreProblem> Check() {
    std::vector<StoreProblem> problems;
    auto store = StoreView::Open(options_.directory, Env::Posix());
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return problems;
    const auto report = CheckStore(*store, [&](const StoreProblem& problem) {
      problems.push_back(problem);
    });
    EXPECT_TRUE(report.ok()) << report.status();
    if (report.ok()) report_ = *report;
    return problems;
  }

  // Fills two segments. The first one has a chunk of two records of two pages
  // each, followed by two chunks that are written by one Append.
  void Fill() {
    options_.segment_bytes_max = 36 << 10;
    OpenWithRun("r");
    ASSERT_TRUE(Append({MakeTensor("r", 0, "a", 4096, 1),
                        MakeTensor("r", 0, "b", 4096, 2)})
                    .ok());
    TestChunks chunks(kStream, next_chunk_++, {MakeTensor("r", 1, "c", 64, 3)});
    chunks.Add(kStream, next_chunk_++, {MakeTensor("r", 1, "d", 9000, 4)});
    ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
    ASSERT_TRUE(Append({MakeTensor("r", 2, "e", 0)}).ok());
  }

  void Flip(int number, uint64_t offset) {
    std::fstream file(SegmentPath(number),
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(~byte));
  }

  StoreCheckReport report_;
};

TEST_F(StoreCheckTest, SoundStoreHasNoProblems) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(report_.segment_count, 2u);
  EXPECT_EQ(report_.frame_count, 4u);
  EXPECT_EQ(report_.record_count, 5u);
  EXPECT_EQ(report_.entry_count, 5u);
  EXPECT_EQ(report_.payload_bytes, 4096u + 4096 + 64 + 9000);
  EXPECT_EQ(report_.unindexed_frame_count, 0u);
  EXPECT_EQ(report_.torn_count, 0u);
  const Output output = Inspect("verify");
  EXPECT_EQ(output.exit, InspectExit::kOk);
  EXPECT_THAT(output.out, HasSubstr("frames=4"));
  EXPECT_THAT(output.out, HasSubstr("problems=0"));
}

TEST_F(StoreCheckTest, CrashedStoreHasNoProblems) {
  Fill();
  Drop();
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(report_.unindexed_frame_count, 4u);
  EXPECT_EQ(report_.entry_count, 0u);
}

TEST_F(StoreCheckTest, InspectionWritesNothing) {
  Fill();
  Drop();
  const auto files = [this] {
    std::set<std::string> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(options_.directory)) {
      const auto size = entry.is_regular_file() ? entry.file_size() : 0;
      out.insert(fmt::format("{} {}", entry.path().string(), size));
    }
    return out;
  };
  const auto before = files();
  EXPECT_EQ(Inspect("verify").exit, InspectExit::kOk);
  EXPECT_EQ(Inspect("dump").exit, InspectExit::kOk);
  EXPECT_EQ(Inspect("runs").exit, InspectExit::kOk);
  EXPECT_EQ(files(), before);
}

TEST_F(StoreCheckTest, RottenPayloadIsNamedByFileAndOffset) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Flip(1, 4096 + 4096 + 4096 + 7);
  const auto problems = Check();
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].file, SegmentPath(1));
  EXPECT_EQ(problems[0].offset, 4096u + 4096 + 4096);
  EXPECT_THAT(problems[0].what, HasSubstr("op b"));
  const Output output = Inspect("verify");
  EXPECT_EQ(output.exit, InspectExit::kProblems);
  EXPECT_THAT(output.out, HasSubstr("offset=12288"));
}

TEST_F(StoreCheckTest, RottenHeadIsReportedWithTheTensorsItTookAlong) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  // The head of "c". Its neighbor "d" was written by the same Append.
  Flip(1, 4096 + 3 * 4096 + 1);
  const auto problems = Check();
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].offset, 4u * 4096);
  EXPECT_THAT(problems[1].what, HasSubstr("/ops/c/"));
}

TEST_F(StoreCheckTest, RotInTheLastAppendOfAClosedStoreIsNoTornTail) {
  OpenWithRun("r");
  TestChunks chunks(1, 0, {MakeTensor("r", 0, "a", 64)});
  chunks.Add(1, 1, {MakeTensor("r", 0, "b", 64)});
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Flip(1, 4096);
  EXPECT_THAT(Check(), SizeIs(2));
}

TEST_F(StoreCheckTest, MissingSegmentIsAProblemOfEachTensorInIt) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  fs::remove(SegmentPath(1));
  EXPECT_THAT(Check(), SizeIs(4));
}

TEST_F(StoreCheckTest, ForeignAndHeadlessSegmentsAreProblems) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  fs::copy(SegmentPath(1), SegmentPath(9));
  Flip(2, 10);
  const auto problems = Check();
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].file, SegmentPath(2));
  EXPECT_EQ(problems[1].file, SegmentPath(9));
}

TEST_F(StoreCheckTest, BytesThatWereGivenUpAreNoProblem) {
  Fill();
  // The first frame of the first segment expires.
  for (int i = 0; i < 3; ++i) {
    const auto step = store_->upkeep().Retain({.run = {.bytes_max = 9100}});
    ASSERT_TRUE(step.ok()) << step.status();
  }
  EXPECT_EQ(store_->runs().GetRun("r")->counters.expired_bytes, 8192u);
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(report_.entry_count, 5u);
  EXPECT_EQ(report_.recordless_count, 0u);
}

TEST_F(StoreCheckTest, EntriesOutliveTheSegmentWhoseBytesWereGivenUp) {
  Fill();
  for (int i = 0; i < 8; ++i) {
    const auto step = store_->upkeep().Retain({.run = {.bytes_max = 1}});
    ASSERT_TRUE(step.ok()) << step.status();
  }
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(report_.record_count, 1u);
  EXPECT_EQ(report_.entry_count, 5u);
  EXPECT_EQ(report_.recordless_count, 4u);
}

TEST_F(StoreCheckTest, LiveStoreIsReadBesideItsDaemon) {
  Fill();
  const Output live = Inspect("verify");
  EXPECT_EQ(live.exit, InspectExit::kOk) << live.out << live.err;
  EXPECT_THAT(live.out, HasSubstr("segments=2 frames=4 records=5"));
  EXPECT_THAT(live.out, HasSubstr("problems=0 live"));
  EXPECT_EQ(Inspect("dump").exit, InspectExit::kOk);
  EXPECT_THAT(Inspect("runs").out, HasSubstr("run r id=1 state=active"));
  // The daemon is not affected.
  ASSERT_TRUE(Append({MakeTensor("r", 3, "f", 64)}).ok());
  ExpectStored(MakeTensor("r", 3, "f", 64));
}

TEST_F(StoreCheckTest, LiveStoreThatIsDamagedIsFoundSo) {
  Fill();
  Flip(1, 8192 + 100);
  ASSERT_TRUE(store_->upkeep().Retain({.run = {.bytes_max = 1 << 20}}).ok());
  const Output live = Inspect("verify");
  // The index is not on disk yet, so the record counts as unacknowledged. After
  // the index is written, the damage is a problem.
  EXPECT_THAT(live.out, HasSubstr("torn=1 problems=0 live"));
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_EQ(Inspect("verify").exit, InspectExit::kProblems);
}

TEST_F(StoreCheckTest, ProducerThatLiesIsToldFromBitRot) {
  OpenWithRun("r");
  TestChunks chunks;
  for (uint64_t stream : {5, 6, 7}) {
    for (uint64_t i = 0; i < 3; ++i) {
      chunks.Add(stream, i,
                 {MakeTensor("r", static_cast<int64_t>(10 * stream + i), "op",
                             4096, 1)});
    }
  }
  for (chunk::Chunk& chunk : chunks.span()) {
    const uint64_t stream = chunk.header().stream_id;
    if (stream == 5) chunk.header().flags |= chunk::kSharedMemoryFlag;
    if (stream == 6) chunk.header().flags |= chunk::kOwnMemoryFlag;
  }
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  // Two frames of stream 5 and one frame of each other stream. A frame has two
  // pages.
  for (const uint64_t frame : {0, 2, 4, 8}) Flip(1, 4096 + 8192 * frame + 5000);
  const std::vector<StoreProblem> problems = Check();
  ASSERT_THAT(problems, SizeIs(4));
  using Cause = StoreProblem::Cause;
  EXPECT_EQ(problems[0].cause, Cause::kProducerOrDisk);
  EXPECT_EQ(problems[1].cause, Cause::kProducerOrDisk);
  EXPECT_EQ(problems[2].cause, Cause::kDisk);
  EXPECT_EQ(problems[3].cause, Cause::kProducerOrDisk);
  EXPECT_THAT(problems[0].what,
              HasSubstr("memory shared with rank 0 of run r"));
  EXPECT_THAT(problems[2].what, HasSubstr("bit rot"));
  EXPECT_EQ(report_.disk_count, 1u);
  EXPECT_EQ(report_.producer_or_disk_count, 3u);
  const Output output = Inspect("verify");
  EXPECT_THAT(output.out, HasSubstr("id=0x5 memory=shared frames=3 "
                                    "mismatching=2\n"));
  EXPECT_THAT(output.out, HasSubstr("id=0x6 memory=own frames=3 "
                                    "mismatching=1\n"));
  EXPECT_THAT(output.out, HasSubstr("bit_rot=1 producer_or_disk=3"));
}

TEST_F(StoreCheckTest, BytesThatGoMeanwhileAreNobodysMismatch) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"gone", 0, {}}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 4096, 1)}).ok());
  ASSERT_TRUE(
      Append(TestChunks(2, 0, {MakeTensor("gone", 0, "op", 4096, 2)})).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Flip(1, 8192);
  Flip(1, 16384);
  Open();
  auto view = StoreView::Open(options_.directory, Env::Posix());
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_TRUE(store_->runs().DeleteRun("gone").ok());
  const auto report = CheckStore(*view, [](const StoreProblem& /*problem*/) {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problem_count, 1u);
  ASSERT_THAT(report->mismatches, SizeIs(1));
  EXPECT_EQ(report->mismatches[0].run, "r");
}

TEST_F(StoreCheckTest, LiveStoreMayChangeMeanwhile) {
  options_.segment_bytes_max = 64 << 10;
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"kept", 0, {}}).ok());
  std::atomic<bool> is_done = false;
  std::thread daemon([&] {
    for (int i = 0; !is_done; ++i) {
      const std::string run = "passing-" + std::to_string(i / 20);
      if (i % 20 == 0) {
        EXPECT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
      }
      EXPECT_TRUE(
          Append(TestChunks(2, i % 20, {MakeTensor(run, i, "op", 9000, i)}))
              .ok());
      EXPECT_TRUE(Append({MakeTensor("kept", i, "op", 9000, i)}).ok());
      EXPECT_TRUE(store_->upkeep().Retain({.run = {.bytes_max = 90'000}}).ok());
      if (i % 20 == 19) {
        EXPECT_TRUE(store_->runs().DeleteRun(run).ok());
      }
    }
  });
  for (int i = 0; i < 12; ++i) {
    const Output live = Inspect("verify");
    EXPECT_EQ(live.exit, InspectExit::kOk) << live.out << live.err;
  }
  is_done = true;
  daemon.join();
}

}  // namespace
}  // namespace msitd::storage
