// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

// The `_min_max` files of the TorchAir document, which stand where a dump was:
// X.npy becomes X_min_max.npy with [min, max]; a GE dump X becomes
// X_min_max.npz, whose `inputs` and `outputs` have a row [min, max] for each
// tensor. Values are those of NumPy: NaN if any element is NaN; the type is
// kept, bfloat16 becomes float32, and rows of several types get the type that
// NumPy promotes them to. The row of a tensor that the task did not have is
// NaN.
namespace msitd::watch {

// Returns the name of the file that a dump of this name becomes. Nothing for a
// name that such a file or another kind of file has.
std::optional<std::string> MinMaxName(std::string_view name);

// The inverse: the name of the dump; nothing if `name` is of no such file.
std::optional<std::string> SourceOfMinMax(std::string_view name);

// Smallest and largest element of a tensor.
struct MinMax {
  Io io = Io::kUnspecified;
  DType dtype = DType::kUnspecified;
  // The elements, in the lower bytes.
  uint64_t min_bits = 0;
  uint64_t max_bits = 0;
};

// The type that NumPy gives an array of elements of both.
DType Promote(DType a, DType b);

// Reads the file at `path`. An error, for which the dump has to stay: a tensor
// has a problem, no elements, or a type without an order.
absl::Status ReadMinMax(const std::string& path, std::vector<MinMax>* out);

// The bytes of a .npy file with these rows, of shape (2,) if `is_one`.
std::string MinMaxArray(const std::vector<MinMax>& rows, bool is_one);

}  // namespace msitd::watch
