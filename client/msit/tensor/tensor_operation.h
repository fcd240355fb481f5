// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/msit/tensor/tensor.h"

namespace msitd::msit_command {

// More operations than a user would type.
inline constexpr size_t kOperationPartsMax = 64;

// One part of a slice, as in Python.
struct Range {
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  int64_t step = 1;
};
struct Ellipsis {};
using SlicePart = std::variant<int64_t, Range, Ellipsis>;

// An operation of `msit tensor-view -op` on a tensor: selects a part of it, or
// permutes its dimensions.
class TensorOperation {
 public:
  // "SliceOperation: ['0', ':']", as it is logged.
  const std::string& name() const { return name_; }

  // Returns INVALID_ARGUMENT if the tensor has too few dimensions, or if an
  // index is out of range. No result is larger than its tensor.
  absl::StatusOr<Tensor> Apply(const Tensor& tensor) const;

 private:
  friend absl::StatusOr<std::vector<TensorOperation>> ParseOperations(
      std::string_view text);

  absl::StatusOr<Tensor> Slice(const Tensor& tensor) const;
  absl::StatusOr<Tensor> Permute(const Tensor& tensor) const;

  std::string text_;
  std::string name_;
  bool is_slice_ = false;
  std::vector<SlicePart> parts_;
  std::vector<int64_t> order_;  // For a permutation.
};

// Parses operations separated by semicolons: `[0,1:-1:2,...]` is a slice,
// `(1,0)` a permutation. An INVALID_ARGUMENT error describes the invalid part.
absl::StatusOr<std::vector<TensorOperation>> ParseOperations(
    std::string_view text);

}  // namespace msitd::msit_command
