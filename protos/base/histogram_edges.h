// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace msitd {

// Returns the edges of `bin_count` bins of equal width from `low` to `high`,
// both finite and `low` not above `high`: one more than bins, ascending, the
// first is `low` and the last is `high`. Edge i is `low + i * step` with
// `step = (high - low) / bin_count`, each operation rounded to double, so equal
// arguments give equal bits on every CPU. Where `high - low` would overflow, or
// `step` vanish, all of it is computed of numbers that are scaled by a power of
// two; docs/kernels.md has the bounds.
std::vector<double> HistogramEdges(double low, double high, int bin_count);

// The power of two by which HistogramEdges scales: 1 but for extreme limits.
double HistogramScale(double low, double high);

}  // namespace msitd
