// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace msitd {

// Returns the `bin_count` + 1 edges of `bin_count` bins of equal width,
// ascending: the first is `low` and the last is `high`. Both limits are finite,
// and `low` is not above `high`. Edge i is `low + i * step` with `step = (high
// - low) / bin_count`, each operation rounded to double, so equal arguments
// give equal bits on every CPU. Where `high - low` would overflow, or `step`
// vanish, the computation is done on numbers scaled by a power of two;
// docs/kernels.md has the bounds.
std::vector<double> HistogramEdges(double low, double high, int bin_count);

// Returns the power of two by which HistogramEdges scales: 1 except for extreme
// limits.
double HistogramScale(double low, double high);

}  // namespace msitd
