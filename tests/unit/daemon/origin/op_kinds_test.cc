// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/op_kinds.h"

#include <gtest/gtest.h>

namespace msitd::origin {
namespace {

TEST(OpKindsTest, BaseNamesHaveNoPrefixAndNoUnderscores) {
  EXPECT_EQ(BaseName("Tensor.log_"), "log");
  EXPECT_EQ(BaseName("Tensor.__imul__"), "mul");
  EXPECT_EQ(BaseName("Tensor.__setitem__"), "setitem");
  EXPECT_EQ(BaseName("log"), "log");
  EXPECT_EQ(BaseName(""), "");
  EXPECT_EQ(BaseName("."), "");
  EXPECT_EQ(BaseName("Tensor.__"), "");
}

TEST(OpKindsTest, ModulesAreNoFunctions) {
  EXPECT_TRUE(IsFunction("Torch.log"));
  EXPECT_FALSE(IsFunction("root.Torch.log"));
  EXPECT_FALSE(WritesMask("root.masked_fill"));
  EXPECT_TRUE(WritesMask("Tensor.masked_fill_"));
  EXPECT_TRUE(IsCollective("Distributed.all_reduce"));
  EXPECT_FALSE(IsFunction("Distributed.all_reduce"));
  EXPECT_TRUE(IsFunction("NPU.npu_rms_norm"));
}

TEST(OpKindsTest, OnlyModulesOfTorchArePlain) {
  EXPECT_TRUE(IsPlainModule("torch.nn.modules.linear.Linear"));
  EXPECT_FALSE(IsPlainModule("torch.nn.modules.batchnorm.SyncBatchNorm"));
  EXPECT_FALSE(IsPlainModule("mine.Linear"));
  EXPECT_TRUE(IsArithmeticModule("torch.nn.modules.linear.Linear"));
  EXPECT_FALSE(IsArithmeticModule("torch.nn.modules.activation.Softmax"));
  EXPECT_TRUE(IsArithmeticModule("megatron.layers.ColumnParallelLinear"));
  EXPECT_FALSE(IsArithmeticModule("mine.Scores"));
}

}  // namespace
}  // namespace msitd::origin
