// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/measure/row_matcher.h"
#include "daemon/compute/element_metrics.h"
#include "daemon/compute/open_pairs.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// The metrics of a pair that were computed from its bytes.
struct PairMeasurement {
  compute::PairMetrics metrics;
  compute::ElementMetrics elements;
  // The summary of a side that the index does not have: of a sum, of a view
  // that does not keep all elements, or of a sample. The latter covers only the
  // sampled elements.
  std::optional<Summary> target_summary;
  std::optional<Summary> golden_summary;
  // Metrics of the positions that are not masked. Present if the request has
  // closing values and the pair turns out to be masked scores.
  std::optional<compute::OpenPairs> open;
  // How the rows were matched, if they may be in any order. Without `partners`.
  std::optional<RowMatch> rows;
};

}  // namespace msitd::compare
