// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "client/libmsit/core/status.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::libmsit {

// The bytes of a tensor that is not in memory, such as those of a file. Used by
// the recording thread.
class TensorSource {
 public:
  // Fills `out` with the next bytes, in row-major order. Returns false on
  // failure, and is not called again then.
  virtual bool Read(std::span<std::byte> out) = 0;

  // Memory of the source, with room for the largest part.
  virtual std::span<std::byte> scratch() = 0;

 protected:
  ~TensorSource() = default;
};

// A tensor, or a record of another kind, of the host process, borrowed during
// one call; see msit_tensor.
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
  // Replaces `data` for a tensor in row-major order.
  TensorSource* source = nullptr;
  // Replaces both: the bytes are supplied later, in row-major order. See
  // Client::Reserve.
  bool comes_later = false;
  std::string_view placement = {};  // For a shard; see protos/base/placement.h.
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};
  // Text of a value or of statistics. The text of a value may be longer than
  // limits.h allows, and so may the stack.
  std::string_view value = {};
  std::string_view stack = {};
  uint64_t identity = 0;  // 0 if there is none.
};

// Sets the fields of a record that are determined by its kind, overriding the
// caller's values.
void CompleteForKind(TensorView& tensor);

// Checks a complete `tensor` against limits.h, so that no daemon refuses a
// chunk that contains it. Stores the total size of its elements in
// `tensor_bytes`. A tensor with an identity may lack its bytes.
//
// Errors: INVALID_ARGUMENT, naming the field and the value.
Status CheckTensor(const TensorView& tensor, uint64_t* tensor_bytes);

// Validates a name: at most `bytes_max` bytes, UTF-8, no NUL, and not empty
// unless `may_be_empty`. `what` describes the name in errors.
Status CheckName(std::string_view what, std::string_view name,
                 uint32_t bytes_max, bool may_be_empty);

}  // namespace msitd::libmsit
