// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/compute/element_metrics.h"

namespace msitd::compute {

// A block of elements of a pair, or of components if they are complex. If every
// pass takes only bytes, all members except the bytes and the count are
// undefined.
struct ElementBlock {
  const double* target;
  const double* golden;
  // |t - g| with at most one rounding; undefined if a side is not finite.
  const double* difference;
  const std::byte* target_bytes;
  const std::byte* golden_bytes;
  size_t count;
};

inline constexpr size_t kElementBlock = 1024;

// Computes one metric set for one pair.
class ElementPass {
 public:
  virtual ~ElementPass() = default;

  // True if the pass uses only the bytes of the pair.
  virtual bool TakesBytes() const { return false; }

  // Adds the next block, which has at most kElementBlock elements.
  virtual void Add(const ElementBlock& block) = 0;

  virtual void Finish(ElementMetrics& out) const = 0;
};

// Returns the passes that `request` requests and that apply to the types of the
// pair.
std::vector<std::unique_ptr<ElementPass>> MakePasses(
    DType target, DType golden, const ElementRequest& request);

}  // namespace msitd::compute
