// SPDX-License-Identifier: Apache-2.0
#include "protos/base/histogram_edges.h"

#include <algorithm>
#include <cmath>

#include "protos/base/check.h"

namespace msitd {

double HistogramScale(double low, double high) {
  const double magnitude = std::max(std::abs(low), std::abs(high));
  if (magnitude > 0x1p960) return 0x1p-64;
  if (magnitude < 0x1p-896) return 0x1p128;
  return 1;
}

std::vector<double> HistogramEdges(double low, double high, int bin_count) {
  MSITD_CHECK(bin_count > 0);
  MSITD_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high);
  const double scale = HistogramScale(low, high);
  const double first = low * scale;
  const double step = (high * scale - first) / bin_count;
  std::vector<double> edges;
  edges.reserve(static_cast<size_t>(bin_count) + 1);
  edges.push_back(low);
  for (int i = 1; i < bin_count; ++i) {
    const double offset = i * step;
    edges.push_back((first + offset) / scale);
  }
  edges.push_back(high);
  return edges;
}

}  // namespace msitd
