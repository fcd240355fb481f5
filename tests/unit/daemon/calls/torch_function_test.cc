// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/torch_function.h"

#include <gtest/gtest.h>

namespace msitd {
namespace {

TEST(TorchFunctionTest, FunctionsHaveOneOfThePrefixes) {
  for (const char* const op : {"Functional.linear", "NPU.npu_rms_norm",
                               "Tensor.__mul__", "Torch.log", "VF.lstm"}) {
    EXPECT_TRUE(IsTorchFunction(op)) << op;
  }
  for (const char* const op : {"", "root.Torch.log", "Torch", "torch.log",
                               "Distributed.all_reduce", "Aten.add"}) {
    EXPECT_FALSE(IsTorchFunction(op)) << op;
  }
}

}  // namespace
}  // namespace msitd
