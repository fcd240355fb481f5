// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/core/status.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::client {

// A tensor of the host process, borrowed during one call.
struct TensorView {
  std::string_view device;
  int64_t token = MSIT_TOKEN_CURRENT;
  std::string_view op;
  int32_t call = MSIT_CALL_AUTO;
  Io io = Io::kUnspecified;
  std::string_view index;
  DType dtype = DType::kUnspecified;
  std::span<const int64_t> dims;
  // As many entries as dims, or none for row-major without gaps.
  std::span<const int64_t> byte_strides;
  const std::byte* data = nullptr;
  std::string_view placement = {};  // Of a shard; see protos/base/placement.h.
};

// Checks `tensor` against limits.h, so that no daemon refuses the chunk that
// holds it. Stores the size of its elements in `tensor_bytes`.
//
// Errors: INVALID_ARGUMENT, naming the field and the value.
Status CheckTensor(const TensorView& tensor, uint64_t* tensor_bytes);

// Checks a name: at most `bytes_max` bytes, UTF-8, no NUL, and not empty unless
// `may_be_empty`. `what` is what the error calls it.
Status CheckName(std::string_view what, std::string_view name,
                 uint32_t bytes_max, bool may_be_empty);

}  // namespace msitd::client
