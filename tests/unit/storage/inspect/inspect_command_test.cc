// SPDX-License-Identifier: Apache-2.0
#include "storage/inspect/inspect_command.h"

#include <algorithm>
#include <sstream>

#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::HasSubstr;

class InspectCommandTest : public StoreTest {
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
};

TEST_F(InspectCommandTest, DumpHasALineForEachFrameAndRecord) {
  Fill();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const Output output = Inspect("dump");
  EXPECT_EQ(output.exit, InspectExit::kOk);
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 2 + 4 + 5);
  EXPECT_THAT(output.out, HasSubstr("record offset=8192 bytes=4096 dtype=uint8 "
                                    "shape=[4096] tensor_bytes=4096"));
  EXPECT_THAT(output.out, HasSubstr("runs/r/ranks/0/devices/cpu:0/tokens/2/"
                                    "ops/e/calls/0/output/0"));
}

TEST_F(InspectCommandTest, DumpHasThePlacementsOfShards) {
  OpenWithRun("r");
  TestTensor shard = MakeTensor("r", 0, "shard", 100);
  shard.placement = "0+2x4/4x1:R,S(0)";
  ASSERT_TRUE(Append({shard, MakeTensor("r", 0, "whole", 100)}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const Output output = Inspect("dump");
  EXPECT_EQ(output.exit, InspectExit::kOk);
  EXPECT_THAT(output.out, HasSubstr(" placement=0+2x4/4x1:R,S(0) runs/r/ranks/"
                                    "0/devices/cpu:0/tokens/0/ops/shard/"));
  EXPECT_EQ(output.out.find("placement="), output.out.rfind("placement="));
}

TEST_F(InspectCommandTest, RunsAreListedWithTheirCounters) {
  Fill();
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const Output output = Inspect("runs");
  EXPECT_EQ(output.exit, InspectExit::kOk);
  EXPECT_THAT(output.out, HasSubstr("run r id=1 state=sealed"));
  EXPECT_THAT(output.out, HasSubstr("tensors=5"));
}

TEST_F(InspectCommandTest, ExitCodesTellUsageFromAStoreThatCannotBeOpened) {
  EXPECT_EQ(Inspect("verify").exit, InspectExit::kCannotOpen);
  EXPECT_EQ(Inspect("nonsense").exit, InspectExit::kUsage);
  EXPECT_EQ(Inspect("--help").exit, InspectExit::kOk);
  const Output version = Run({"--version"});
  EXPECT_EQ(version.exit, InspectExit::kOk);
  EXPECT_THAT(version.out, ::testing::MatchesRegex(
                               "msitd-inspect [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace msitd::storage
