// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd {

// Returns
// `runs/{run}/ranks/{rank}/devices/{device}/tokens/{token}/ops/{op}/calls/{call}/{io}/{index}`
// in which `/`, `%`, blanks and control characters inside a component are
// percent-encoded. Case and all other bytes stay as they are.
std::string FormatTensorName(const TensorKey& key);

// The same for a tensor of `run`, whatever `key.run` is.
std::string FormatTensorName(std::string_view run, const TensorKey& key);

// The inverse of FormatTensorName. Nothing if `name` is not of that form, if
// an escape is malformed, or if a number is out of the bounds of limits.h.
std::optional<TensorKey> ParseTensorName(std::string_view name);

}  // namespace msitd
