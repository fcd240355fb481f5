// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/probe_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

TEST(ProbeInputTest, PathsAreThoseOfTheJson) {
  const testing::TempDir dir = testing::TempDir::InMemory();
  const std::string path = dir / "compare.json";
  std::ofstream(path) << R"({"npu_path": "a/dump.json",
      "bench_path": "b/dump.json", "stack_path": "a/stack.json",
      "is_print_compare_log": true})";
  const auto input = ReadProbeInput(path);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->target, "a/dump.json");
  EXPECT_EQ(input->golden, "b/dump.json");
}

TEST(ProbeInputTest, ErrorsNameThePath) {
  const testing::TempDir dir = testing::TempDir::InMemory();
  const std::string path = dir / "compare.json";
  EXPECT_TRUE(absl::IsNotFound(ReadProbeInput(path).status()));
  for (const char* text : {"", "[]", "{}", R"({"npu_path": "a"})",
                           R"({"npu_path": 3, "bench_path": "b"})",
                           R"({"npu_path": "", "bench_path": "b"})"}) {
    std::ofstream(path) << text;
    const auto input = ReadProbeInput(path);
    ASSERT_FALSE(input.ok()) << text;
    EXPECT_THAT(input.status().message(), ::testing::HasSubstr(path));
  }
}

}  // namespace
}  // namespace msitd::msit_command
