// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "protos/base/dtype.h"

// What a pickle of torch.save may name.
namespace msitd::formats {

enum class TorchGlobal : uint8_t {
  kRefused,
  // Functions that make a tensor: storage, offset, size, stride, requires_grad,
  // hooks, then:
  kTensor,      // nothing, or what does not matter
  kTensorV2,    // flags
  kTensorV3,    // dtype, flags
  kWrapped,     // They take such a call as their first argument.
  kFromType,    // function, class, its arguments, attributes
  kUnreadable,  // Tensors whose elements cannot be delivered.
  kStorage,     // A class of storages, by their type.
  kDType,
  kDict,
  kValue,  // Anything else that is no tensor.
};

// Says what the global `name` of `module` is.
TorchGlobal TorchGlobalOf(std::string_view module, std::string_view name);

// Why a tensor that the kUnreadable global `name` makes has no elements.
std::string_view UnreadableReason(std::string_view name);

// The type of the elements of a storage or of a tensor, by the name of its
// class or dtype; kUnspecified if msitd has no such elements.
DType TorchStorageType(std::string_view name);
DType TorchDType(std::string_view name);

}  // namespace msitd::formats
