// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd {

// Returns
// `runs/{run}/ranks/{rank}/devices/{device}/tokens/{token}/ops/{op}/calls/{call}/{io}/{index}`
// with `/`, `%`, blanks and control characters in a component percent-encoded.
// All other bytes are unchanged, including their case.
std::string FormatTensorName(const TensorKey& key);

// As above, for a tensor of `run`; ignores `key.run`.
std::string FormatTensorName(std::string_view run, const TensorKey& key);

// Inverse of FormatTensorName. Returns nothing if `name` does not have this
// form, has a malformed escape, or has a number outside of limits.h.
std::optional<TensorKey> ParseTensorName(std::string_view name);

}  // namespace msitd
