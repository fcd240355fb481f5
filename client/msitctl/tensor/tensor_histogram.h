// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::msitctl {

struct HistogramFlags {
  std::string name;
  int32_t bins =
      0;  // 0: kTableBins in a table, otherwise the default of the daemon.
  std::optional<double> low;
  std::optional<double> high;
};

// The number of lines of a small terminal.
inline constexpr int32_t kTableBins = 20;

// The daemon rejects more bins.
inline constexpr int32_t kBinsMax = 1024;

// Prints the distribution of the elements of one tensor: a table has bars, CSV
// has a line for each bin and for the counts below, above and of NaN, and JSON
// is the Histogram.
ask::Outcome PrintHistogram(Invocation& invocation,
                            const HistogramFlags& flags);

// Returns the lines of the table. The bar of the largest bin is `bar_width`
// columns wide. Counts outside of the bins and of NaN have lines if they are
// not 0.
std::string HistogramTable(const v1::Histogram& histogram, size_t bar_width,
                           ask::Table::Style style);

std::string HistogramCsv(const v1::Histogram& histogram);

}  // namespace msitd::msitctl
