// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <sstream>

#include "storage/inspect/inspect_command.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of chunks of which only summaries and hashes are kept.
namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SummaryOnlyTest : public StoreTest {
 protected:
  absl::Status AppendSummaries(const std::vector<TestTensor>& records) {
    TestChunks chunks(kStream, next_chunk_++, records);
    chunks.span()[0].header().flags = chunk::kSummaryOnlyFlag;
    return store_->log().Append(chunks.span());
  }

  void ExpectSummaryOnly(const TestTensor& tensor) {
    const auto info = read_->GetTensor(tensor.key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->shape, tensor.dims);
    EXPECT_EQ(info->tensor_bytes, tensor.bytes.size());
    EXPECT_EQ(info->summary.count, tensor.bytes.size());
    EXPECT_FALSE(info->has_bytes);
    const auto bytes = Read(tensor.key);
    EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED");
  }

  std::string Verify() {
    const std::string directory = options_.directory;
    const std::array argv = {"msitd-inspect", "verify", "--data-dir",
                             directory.c_str()};
    std::ostringstream out;
    const InspectExit exit = RunInspect(argv.size(), argv.data(), out, out);
    EXPECT_EQ(exit, InspectExit::kOk) << out.str();
    return out.str();
  }
};

TEST_F(SummaryOnlyTest, TakesRoomForHeadsOnly) {
  OpenWithRun("r");
  const TestTensor tensor = MakeTensor("r", 0, "op", kPartBytes);
  ASSERT_TRUE(AppendSummaries({tensor}).ok());
  ExpectSummaryOnly(tensor);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 1u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.payload_bytes, 0u);
  ASSERT_TRUE(store_->Close().ok());
  // One page for the header of the segment, and one for the head of the frame.
  EXPECT_EQ(std::filesystem::file_size(SegmentPath(1)), 2 * 4096u);
}

TEST_F(SummaryOnlyTest, SurvivesACrashBetweenOthers) {
  OpenWithRun("r");
  const TestTensor before = MakeTensor("r", 0, "before", 9000);
  const TestTensor summary = MakeTensor("r", 0, "summary", 9000, 2);
  const TestTensor after = MakeTensor("r", 0, "after", 9000, 3);
  ASSERT_TRUE(Append({before}).ok());
  ASSERT_TRUE(AppendSummaries({summary}).ok());
  ASSERT_TRUE(Append({after}).ok());
  EXPECT_THAT(Verify(), HasSubstr("frames=3 records=3"));
  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 3u);
  ExpectStored(before);
  ExpectSummaryOnly(summary);
  ExpectStored(after);
  EXPECT_THAT(ScanOps("r"), ElementsAre("before", "summary", "after"));
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_THAT(Verify(), HasSubstr("payload_bytes=18000"));
}

TEST_F(SummaryOnlyTest, PartOfATensorIsEnoughToHaveNoBytes) {
  OpenWithRun("r");
  TestTensor tensor = MakeTensor("r", 0, "big", kPartBytes + 100);
  ASSERT_TRUE(Append({tensor}).ok());
  tensor.part = 1;
  ASSERT_TRUE(AppendSummaries({tensor}).ok());
  ExpectSummaryOnly(tensor);
}

TEST_F(SummaryOnlyTest, FirstRecordOfAKeyStaysAsItIs) {
  OpenWithRun("r");
  const TestTensor tensor = MakeTensor("r", 0, "op", 9000);
  ASSERT_TRUE(Append({tensor}).ok());
  ASSERT_TRUE(AppendSummaries({tensor}).ok());
  ExpectStored(tensor);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 1u);
}

TEST_F(SummaryOnlyTest, RetentionPassesOverIt) {
  options_.segment_bytes_max = 24 << 10;
  OpenWithRun("r");
  for (int token = 0; token < 4; ++token) {
    ASSERT_TRUE(AppendSummaries({MakeTensor("r", token, "s", 9000)}).ok());
    ASSERT_TRUE(Append({MakeTensor("r", token, "f", 9000)}).ok());
  }
  RetentionPolicy policy;
  policy.run.token_count = 1;
  for (int step = 0; step < 100; ++step) {
    const auto done = store_->upkeep().Retain(policy);
    ASSERT_TRUE(done.ok()) << done.status();
    if (done->is_done) break;
  }
  ExpectStored(MakeTensor("r", 3, "f", 9000));
  ExpectSummaryOnly(MakeTensor("r", 3, "s", 9000));
  ExpectSummaryOnly(MakeTensor("r", 0, "f", 9000));
  EXPECT_EQ(store_->runs().GetRun("r")->counters.kept_bytes(), 9000u);
  ASSERT_TRUE(store_->Close().ok());
  Verify();
}

}  // namespace
}  // namespace msitd::storage
