// SPDX-License-Identifier: Apache-2.0
// The file statistics.csv of msit. A run accepts each row that can be parsed.
#include <string>

#include "client/foreign/trees/msit_statistics.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/tensor_statistics.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  const std::string titles =
      "NodeName,NodeType,InputOutput,Index,DataType,Shape,Max,Min,Mean,L2Norm"
      "\r\n";
  return {
      titles +
          "root.fc,Linear,Input,0,torch.float16,\"(2, 3)\",1.5,-2,nan,inf\r\n"
          "root.fc,Linear,Output,1,torch.bool,\"(1,)\",True,0,,1e-05\r\n",
      titles + "\"a\"\"b\",x,Output,0,torch.int64,torch.Size([4]),1,1,1,1\n",
  };
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto table = msitd::trees::ParseMsitStatistics(
      {reinterpret_cast<const char*>(data), size});
  if (!table.ok()) return 0;
  for (const auto& row : table->rows) {
    MSITD_CHECK(msitd::ParseTensorStatistics(row.text).has_value());
    MSITD_CHECK(row.shape.size() <= msitd::kDimsMax);
    MSITD_CHECK(msitd::IsValid(row.dtype));
  }
  return 0;
}
