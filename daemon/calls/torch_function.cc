// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/torch_function.h"

#include <algorithm>
#include <array>

namespace msitd {

bool IsTorchFunction(std::string_view op) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {
      "Functional.", "NPU.", "Tensor.", "Torch.", "VF."};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [op](std::string_view p) { return op.starts_with(p); });
}

}  // namespace msitd
