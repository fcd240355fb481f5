// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/compute/element_metrics.h"

namespace msitd::compute {

// Elements, or components of complex ones, of a pair. All but the bytes and the
// count is void if every pass takes bytes.
struct ElementBlock {
  const double* target;
  const double* golden;
  // |t - g|, exact but for one rounding; void where a side is not finite.
  const double* difference;
  const std::byte* target_bytes;
  const std::byte* golden_bytes;
  size_t count;
};

inline constexpr size_t kElementBlock = 1024;

// One metric set over one pair.
class ElementPass {
 public:
  virtual ~ElementPass() = default;

  // True if bytes of the pair are all that the pass looks at.
  virtual bool TakesBytes() const { return false; }

  // At most kElementBlock elements, in order.
  virtual void Add(const ElementBlock& block) = 0;

  virtual void Finish(ElementMetrics& out) const = 0;
};

// Returns the passes that `request` asks for and the pair allows.
std::vector<std::unique_ptr<ElementPass>> MakePasses(
    DType target, DType golden, const ElementRequest& request);

}  // namespace msitd::compute
