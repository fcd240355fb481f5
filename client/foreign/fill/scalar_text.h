// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "protos/base/dtype.h"

namespace msitd::fill {

// A number in the form of a record of kind kNumber.
struct Scalar {
  DType dtype = DType::kUnspecified;
  // The first ElementBytes of its dtype are used.
  std::array<std::byte, 16> bytes = {};
};

// Parses a bool, int, float or complex as Python or JSON writes it: `True`,
// `-7`, `1e-05`, `NaN`, `-Infinity`, `(1+2j)`. Returns nothing for any other
// text, and for an integer of more than 64 bits.
std::optional<Scalar> ParseScalar(std::string_view text);

}  // namespace msitd::fill
