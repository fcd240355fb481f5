// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/pair_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/text/text.h"
#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

Tensor MakeTensor(std::vector<float> elements, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.dtype = DType::kFloat32;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(elements.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), elements.data(), tensor.bytes.size());
  return tensor;
}

class PairComparisonTest : public ::testing::Test {
 protected:
  PairComparisonTest() {
    const std::filesystem::path msitd = MSITD_BINARY;
    ::setenv("PATH", msitd.parent_path().c_str(), 1);
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
  }

  const testing::TempDir folder_;
  ask::Interrupts interrupts_;
};

TEST_F(PairComparisonTest, PairThatIsRefusedLeavesNothingToTheNext) {
  std::vector<std::pair<size_t, std::string>> largest;
  PairComparison pairs(
      interrupts_,
      PairComparison::TakeReportRows([&](size_t pair, const ReportRow& row) {
        largest.emplace_back(pair, ask::TextOf(row.At("golden_max_value")) +
                                       " " +
                                       ask::TextOf(row.At("my_max_value")));
      }));
  const Tensor first = MakeTensor({1, 2}, {2});
  Tensor deeper = MakeTensor({1, 2}, std::vector<int64_t>(32, 1));
  deeper.shape.push_back(2);
  const std::pair<const Tensor*, const Tensor*> refused[] = {{&first, &deeper},
                                                             {&deeper, &first}};
  for (const auto& [golden, my] : refused) {
    const absl::Status added = pairs.Add(*golden, *my);
    EXPECT_TRUE(absl::IsInvalidArgument(added)) << added;
  }
  EXPECT_TRUE(pairs.Add(MakeTensor({3, 4}, {2}), MakeTensor({3, 5}, {2})).ok());
  EXPECT_TRUE(pairs.Add(MakeTensor({6, 7}, {2}), MakeTensor({6, 8}, {2})).ok());
  const absl::Status finished = pairs.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
  EXPECT_THAT(largest,
              UnorderedElementsAre(Pair(0, "4.0 5.0"), Pair(1, "7.0 8.0")));
}

}  // namespace
}  // namespace msitd::msit_command
