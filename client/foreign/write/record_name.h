// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/write/writer/torch_file.h"
#include "msitd/v1/tensor_service.pb.h"

// The name and type of a record in files.
namespace msitd::write {

// Returns the name of a file of one record in the folder of its device:
// FileName of op, call, io and index.
std::string RecordFileName(const v1::Tensor& record,
                           std::string_view extension);

// Returns the name in a file of many records: `device/op/call/io/index`, where
// `/`, `%`, blanks and control characters of a component are percent-encoded.
std::string RecordName(const v1::Tensor& record);

// Returns the tensor for a .pt file. It requires a gradient only if its type
// can.
TorchTensor TorchTensorOf(const v1::Tensor& record);

}  // namespace msitd::write
