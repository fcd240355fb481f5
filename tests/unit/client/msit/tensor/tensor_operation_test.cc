// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/tensor_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// [[0, 1, 2], [3, 4, 5]].
Tensor TwoRows() {
  Tensor tensor{DType::kUint8, {2, 3}, {}};
  for (int i = 0; i < 6; ++i) {
    tensor.bytes.push_back(static_cast<std::byte>(i));
  }
  return tensor;
}

struct Outcome {
  std::vector<int64_t> shape;
  std::vector<double> numbers;
  std::string problem;
};

Outcome Apply(std::string_view text) {
  const auto operations = ParseOperations(text);
  if (!operations.ok()) {
    return {{}, {}, std::string(Message(operations.status()))};
  }
  Tensor tensor = TwoRows();
  for (const TensorOperation& operation : *operations) {
    auto next = operation.Apply(tensor);
    if (!next.ok()) return {{}, {}, std::string(Message(next.status()))};
    tensor = *std::move(next);
  }
  return {tensor.shape, *NumbersOf(tensor), ""};
}

TEST(TensorOperation, SlicesAsPythonDoes) {
  struct Case {
    std::string text;
    std::vector<int64_t> shape;
    std::vector<double> numbers;
  };
  const Case cases[] = {
      {"[1]", {3}, {3, 4, 5}},
      {"[-2]", {3}, {0, 1, 2}},
      {"[:,1]", {2}, {1, 4}},
      {"[...,-1]", {2}, {2, 5}},
      {"[1,2,...]", {}, {5}},
      {"[:,::2]", {2, 2}, {0, 2, 3, 5}},
      {"[:, -2:9]", {2, 2}, {1, 2, 4, 5}},
      {"[1:-5, :]", {0, 3}, {}},
      {"[-9:1]", {1, 3}, {0, 1, 2}},
      {"[0:2:9223372036854775807]", {1, 3}, {0, 1, 2}},
      {"(1,0)", {3, 2}, {0, 3, 1, 4, 2, 5}},
      {"(1,0);[1:];[:,0]", {2}, {1, 2}},
  };
  for (const Case& c : cases) {
    const Outcome outcome = Apply(c.text);
    EXPECT_EQ(outcome.problem, "") << c.text;
    EXPECT_EQ(outcome.shape, c.shape) << c.text;
    EXPECT_EQ(outcome.numbers, c.numbers) << c.text;
  }
}

TEST(TensorOperation, RefusesWhatDoesNotFit) {
  struct Case {
    std::string text;
    std::string problem;
  };
  const Case cases[] = {
      {"[2]", "dim[0]_size is 2 while index=2"},
      {"[0,-4]", "dim[1]_size is 3 while index=-4"},
      {"[0,0,0]", "more dimensions"},
      {"(0)", "has 1 dimensions, the tensor has 2"},
      {"(0,0)", "duplicate"},
      {"(0,2)", "between 0 and 1"},
      {"[]", "can not be empty"},
      {"", "Invalid operation"},
      {"[0];", "Invalid operation"},
      {"[0)", "Invalid operation"},
      {"[1x]", "invalid: '1x'"},
      {"[1:2:3:4]", "invalid"},
      {"[::0]", "step must be positive"},
      {"[::-1]", "step must be positive"},
      {"[...,...]", "too many parts"},
      {"(0,1:2)", "invalid"},
      {"[99999999999999999999]", "invalid"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Apply(c.text).problem, HasSubstr(c.problem)) << c.text;
  }
}

TEST(TensorOperation, IsCalledAsMsitCallsIt) {
  const auto operations = ParseOperations("[0, :];(1,0)");
  ASSERT_TRUE(operations.ok());
  EXPECT_EQ((*operations)[0].name(), "SliceOperation: ['0', ':']");
  EXPECT_EQ((*operations)[1].name(), "PermuteOperation: [1, 0]");
}

TEST(TensorOperation, CopiesWholeElements) {
  Tensor tensor{DType::kInt16, {1, 2}, {}};
  for (const int byte : {1, 0, 0, 1}) {
    tensor.bytes.push_back(static_cast<std::byte>(byte));
  }
  const auto operations = ParseOperations("(1,0)");
  const auto out = (*operations)[0].Apply(tensor);
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(*NumbersOf(*out), ElementsAre(1, 256));
}

}  // namespace
}  // namespace msitd::msit_command
