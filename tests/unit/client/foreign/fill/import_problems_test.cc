// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_problems.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::fill {
namespace {

TEST(ImportProblemsTest, NameOfTheFileIsSaidOnce) {
  ImportProblems problems;
  problems.Add("/a/b.npy", absl::DataLossError("/a/b.npy: it ends early"));
  ASSERT_EQ(problems.listed().size(), 1u);
  EXPECT_EQ(problems.listed()[0].file, "/a/b.npy");
  EXPECT_EQ(problems.listed()[0].reason, "it ends early");
}

TEST(ImportProblemsTest, ReasonsThatDifferInNumbersAreCountedTogether) {
  ImportProblems problems;
  problems.Add("a", absl::DataLossError("it ends before byte 10"));
  problems.Add("b", absl::DataLossError("it ends before byte 12345"));
  ASSERT_EQ(problems.counts().size(), 1u);
  EXPECT_EQ(problems.counts().begin()->first, "it ends before byte N");
  EXPECT_EQ(problems.counts().begin()->second, 2);
}

TEST(ImportProblemsTest, MemoryDoesNotGrowWithProblems) {
  ImportProblems problems;
  const auto count = static_cast<int64_t>(2 * ImportProblems::kListedMax);
  for (int64_t i = 0; i < count; ++i) {
    problems.Add("file", absl::InvalidArgumentError(
                             std::string(static_cast<size_t>(i % 200), 'x')));
  }
  EXPECT_EQ(problems.count(), count);
  EXPECT_EQ(problems.listed().size(), ImportProblems::kListedMax);
  EXPECT_LE(problems.counts().size(), ImportProblems::kReasonsMax + 1);
}

TEST(ImportProblemsTest, FileThatIsCutOffMayPassAndUnknownTypesDoNot) {
  ImportProblems problems;
  problems.Add("a", absl::UnimplementedError("texts"));
  problems.Add("b", absl::InvalidArgumentError("no dump"));
  EXPECT_FALSE(problems.may_pass());
  problems.Add("c", absl::DataLossError("it ends early"));
  EXPECT_TRUE(problems.may_pass());
}

}  // namespace
}  // namespace msitd::fill
