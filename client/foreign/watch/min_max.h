// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

// The `_min_max` files of the TorchAir document, which replace dumps. X.npy
// becomes X_min_max.npy with [min, max]. A GE dump X becomes X_min_max.npz,
// whose `inputs` and `outputs` have a row [min, max] for each tensor. Values
// are those of NumPy: NaN if any element is NaN. The type is kept, except that
// bfloat16 becomes float32, and rows of several types get the type to which
// NumPy promotes them. The row of a tensor that the task did not have is NaN.
namespace msitd::watch {

// Returns the name of the file that replaces a dump with this name. Returns
// nothing for the name of such a file or of another kind of file.
std::optional<std::string> MinMaxName(std::string_view name);

// The inverse of MinMaxName. Returns nothing if `name` is not that of such a
// file.
std::optional<std::string> SourceOfMinMax(std::string_view name);

// Smallest and largest element of a tensor.
struct MinMax {
  Io io = Io::kUnspecified;
  DType dtype = DType::kUnspecified;
  // The elements, in the lower bytes.
  uint64_t min_bits = 0;
  uint64_t max_bits = 0;
};

// Returns the type that NumPy gives an array of elements of both types.
DType Promote(DType a, DType b);

// Reads the file at `path`. Returns an error, on which the dump must stay, if a
// tensor has a problem, no elements, or a type without an order.
absl::Status ReadMinMax(const std::string& path, std::vector<MinMax>* out);

// Returns the bytes of a .npy file with these rows, of shape (2,) if `is_one`.
std::string MinMaxArray(const std::vector<MinMax>& rows, bool is_one);

}  // namespace msitd::watch
