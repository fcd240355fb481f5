// SPDX-License-Identifier: Apache-2.0
#include "protos/base/dtype.h"

namespace msitd {

std::optional<DType> ParseDType(std::string_view name) {
  for (size_t i = 1; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace msitd
