// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "protos/base/placement.h"

namespace msitd {

// The inverse of ParsePlacement, to check that each placement has only one
// text.
inline std::string FormatPlacement(const Placement& placement) {
  std::string sizes;
  std::string strides;
  std::string kinds;
  for (const Placement::MeshDim& dim : placement.dims) {
    if (!sizes.empty()) {
      sizes += 'x';
      strides += 'x';
      kinds += ',';
    }
    sizes += std::to_string(dim.size);
    strides += std::to_string(dim.stride);
    switch (dim.kind) {
      case Placement::Kind::kReplicated:
        kinds += 'R';
        break;
      case Placement::Kind::kSharded:
        kinds += "S(" + std::to_string(dim.tensor_dim) + ")";
        break;
      case Placement::Kind::kPartial:
        kinds += "P(" + dim.reduction + ")";
        break;
    }
  }
  return std::to_string(placement.first) + "+" + sizes + "/" + strides + ":" +
         kinds;
}

}  // namespace msitd
