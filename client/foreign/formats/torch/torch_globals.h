// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "protos/base/dtype.h"

// The globals that a pickle of torch.save contains for tensors and plain
// values.
namespace msitd::formats {

enum class TorchGlobal : uint8_t {
  kUnknown,  // Any other, such as a class of a program.
  // Functions that create a tensor. Their arguments are storage, offset, size,
  // stride, requires_grad and hooks, followed by:
  kTensor,      // nothing, or arguments that do not matter
  kTensorV2,    // flags
  kTensorV3,    // dtype, flags
  kWrapped,     // Functions whose first argument is such a call.
  kFromType,    // function, class, its arguments, attributes
  kUnreadable,  // Functions whose tensors cannot be delivered.
  kStorage,     // A storage class, by element type.
  kDType,
  kDict,
  kValue,  // Any other value that is not a tensor.
};

// Returns what the global `name` of `module` is.
TorchGlobal TorchGlobalOf(std::string_view module, std::string_view name);

// Returns why a tensor that the kUnreadable global `name` creates has no
// elements.
std::string_view UnreadableReason(std::string_view name);

// Returns the type of the elements of a storage or of a tensor, by the name of
// its class or dtype; kUnspecified if msitd does not support such elements.
DType TorchStorageType(std::string_view name);
DType TorchDType(std::string_view name);

}  // namespace msitd::formats
