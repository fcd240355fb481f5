// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::HasSubstr;

class ExportTest : public MsitctlTest {
 protected:
  ExportTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    AddRun("r");
    daemon_.data().bytes = "12345678";
  }
  ~ExportTest() override { std::filesystem::remove_all(folder_); }

  void AddTensors(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string op = fmt::format("op{}", i);
      v1::Tensor& tensor = AddTensor(
          fmt::format("runs/r/ranks/0/devices/cpu:0/tokens/0/ops/{}/calls/0/"
                      "output/0",
                      op));
      tensor.set_op(op);
    }
  }

  // Exports all tensors and expects that all files are complete.
  void ExpectAll(int count) {
    const ChildResult result = Run({"run", "export", "r", "--format", "npy",
                                    "--out", (folder_ / "out").string()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(fmt::format("{} tensors", count)));
    for (int i = 0; i < count; ++i) {
      const auto path = folder_ / "out" / "rank0" / "token0" / "cpu%3a0" /
                        fmt::format("op{},0,output,0.npy", i);
      std::ifstream file(path, std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      ASSERT_EQ(text.substr(std::min<size_t>(text.size(), 128)), "12345678")
          << path;
    }
  }

  int CallCount(const std::string& name) const {
    const auto calls = daemon_.calls();
    return static_cast<int>(std::count(calls.begin(), calls.end(), name));
  }

  std::filesystem::path folder_;
};

TEST_F(ExportTest, SmallTensorsComeManyInACall) {
  AddTensors(1500);
  ExpectAll(1500);
  EXPECT_EQ(CallCount("ReadTensor"), 0);
  // Names of two pages are combined, up to the limit of a request.
  EXPECT_LE(CallCount("ReadTensors"), 6);
}

TEST_F(ExportTest, WhatAStreamLeavesOutIsReadAlone) {
  AddTensors(10);
  daemon_.data().left_out = {0, 4, 5, 9};
  ExpectAll(10);
  EXPECT_EQ(CallCount("ReadTensors"), 1);
  EXPECT_EQ(CallCount("ReadTensor"), 4);
}

TEST_F(ExportTest, BehindABreakAnotherStreamGoesOn) {
  AddTensors(10);
  daemon_.data().break_after_count = 4;
  ExpectAll(10);
  EXPECT_EQ(CallCount("ReadTensors"), 2);
  EXPECT_EQ(CallCount("ReadTensor"), 2);
}

TEST_F(ExportTest, AnOlderDaemonIsAskedForEachAlone) {
  AddTensors(10);
  daemon_.data().is_without_read_tensors = true;
  ExpectAll(10);
  EXPECT_EQ(CallCount("ReadTensors"), 1);
  EXPECT_EQ(CallCount("ReadTensor"), 10);
}

TEST_F(ExportTest, BytesOfAnotherLengthAreAskedForAgain) {
  AddTensors(3);
  daemon_.data().tensors[1].set_size_bytes(4);
  const ChildResult result = Run({"run", "export", "r", "--format", "npy",
                                  "--out", (folder_ / "out").string()});
  EXPECT_THAT(result.err, HasSubstr("8 bytes at 0; 0 of 4"));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(CallCount("ReadTensors"), 1);
}

TEST_F(ExportTest, FilesOfTwoRunsAreNoExport) {
  AddTensors(3);
  daemon_.data().runs[0].set_id("0123456789abcdef0123456789abcdef");
  daemon_.data().later_run_id = "fedcba9876543210fedcba9876543210";
  const ChildResult result = Run({"run", "export", "r", "--format", "npy",
                                  "--out", (folder_ / "out").string()});
  EXPECT_THAT(result.err, HasSubstr("another run has its name now"));
  EXPECT_NE(result.exit_code, 0);
}

}  // namespace
}  // namespace msitd::msitctl
