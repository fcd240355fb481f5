// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/foreign/write/output_folder.h"
#include "protos/base/dtype.h"

// Writes files in the format of torch.save, which torch.load(weights_only=True)
// accepts.
namespace msitd::write {

// Returns the name of the torch type that stores the elements. If torch does
// not have `dtype`, this is uint8 or int8.
std::string_view TorchTypeName(DType dtype);

// The tensor in a file.
struct TorchTensor {
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  uint64_t size_bytes = 0;
  bool requires_grad = false;
};

// Returns the pickle of the tensor, byte for byte as torch writes it.
std::string TorchPickle(const TorchTensor& tensor);

// Writes the file. `stem` is its name without the extension; the archive has a
// folder of that name. `give` passes the bytes to the sink that it receives.
// Its error is returned.
using TorchSink = absl::FunctionRef<absl::Status(std::string_view)>;
absl::Status WriteTorchFile(OutputFile& file, std::string_view stem,
                            const TorchTensor& tensor,
                            absl::FunctionRef<absl::Status(TorchSink)> give);

}  // namespace msitd::write
