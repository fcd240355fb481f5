// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "protos/base/dtype.h"
#include "protos/base/summary.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {

// An unfinished summary: what one call of a kernel hands to the next.
struct SummaryState {
  uint64_t count = 0;
  uint64_t nan_count = 0;
  uint64_t positive_infinity_count = 0;
  uint64_t negative_infinity_count = 0;
  uint64_t zero_count = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  LaneSum sum;
  LaneSum l1;
  LaneSum squares;
};

// Adds a block of at most kBlockElements elements of `component`, with any
// values, in double. The bytes are read once. Does not touch `count`.
void AddCarefully(DType component, const std::byte* bytes, size_t count,
                  SummaryState& state);

Summary ToSummary(const SummaryState& state);

}  // namespace msitd::compute
