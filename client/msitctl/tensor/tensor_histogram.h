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
  int32_t bins = 0;  // 0: kTableBins in a table, else what the daemon takes.
  std::optional<double> low;
  std::optional<double> high;
};

// As many lines as a small terminal has.
inline constexpr int32_t kTableBins = 20;

// More are refused by the daemon.
inline constexpr int32_t kBinsMax = 1024;

// Prints how the elements of one tensor spread: a table draws bars, CSV has a
// line for each bin and for what is below, above and NaN, JSON the Histogram.
ask::Outcome PrintHistogram(Invocation& invocation,
                            const HistogramFlags& flags);

// Returns the lines of the table, bars of the largest bin `bar_width` columns
// wide. What is outside or NaN has a line if there is any.
std::string HistogramTable(const v1::Histogram& histogram, size_t bar_width,
                           ask::Table::Style style);

std::string HistogramCsv(const v1::Histogram& histogram);

}  // namespace msitd::msitctl
