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

// What a run gets in place of a tensor. Row-major and little-endian; `bytes`
// are those of dtype and shape.
struct DerivedTensor {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  std::string bytes;
};

// Says what of the tensors of files is kept. Thread-compatible.
class TensorDeriver {
 public:
  virtual ~TensorDeriver() = default;

  // Tells it from any other one. Files that one of them has dealt with are not
  // dealt with for another one.
  virtual std::string id() const = 0;

  // Tensors with more bytes are not given to it.
  virtual uint64_t tensor_bytes_max() const = 0;

  // Returns what is kept of a tensor; none if that is nothing. `key` has no
  // run.
  //
  // Errors: CANCELLED by the user; UNKNOWN if there will be no more results.
  // Any other one is about this tensor.
  virtual absl::StatusOr<std::vector<DerivedTensor>> Derive(
      const TensorKey& key, DType dtype, const std::vector<int64_t>& shape,
      std::string_view bytes) = 0;
};

// The index of a derived tensor: `0~mean` for what is called `mean` of the
// tensor `0`, so that nothing takes it for the tensor itself.
std::string DerivedIndex(std::string_view index, std::string_view name);

}  // namespace msitd::fill
