// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::fill {

// A tensor that is recorded instead of a tensor of a file. It is row-major and
// little-endian. The size of `bytes` matches dtype and shape.
struct DerivedTensor {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  std::string bytes;
};

// Determines what is kept of the tensors of files. Thread-compatible.
class TensorDeriver {
 public:
  virtual ~TensorDeriver() = default;

  // Identifies the deriver. A file that one deriver has processed is not
  // processed again by another one.
  virtual std::string id() const = 0;

  // Tensors with more bytes are not passed to Derive.
  virtual uint64_t tensor_bytes_max() const = 0;

  // Returns the tensors that are kept of a tensor; empty if nothing is kept.
  // `key` has no run.
  //
  // Errors: CANCELLED by the user; UNKNOWN if there will be no more results.
  // Any other error concerns only this tensor.
  virtual absl::StatusOr<std::vector<DerivedTensor>> Derive(
      const TensorKey& key, DType dtype, const std::vector<int64_t>& shape,
      std::string_view bytes) = 0;
};

// Returns the index of a derived tensor: `0~mean` for the tensor `mean` derived
// from tensor `0`, so that it is not confused with the tensor itself.
std::string DerivedIndex(std::string_view index, std::string_view name);

}  // namespace msitd::fill
