// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/tensor/tensor_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "client/msitctl/verb/pages.h"
#include "protos/base/histogram_edges.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Columns of the longest bar on a wide and on a narrow terminal.
constexpr size_t kBarWidth = 40;
constexpr size_t kBarWidthMin = 8;
// Columns for the numbers: two of six digits with sign and exponent, a count of
// ten digits, and the gaps.
constexpr size_t kNumbersWidth = 2 * 12 + 10 + 3 * 2;

// One line: elements from `begin` to `end`.
using Visit = std::function<void(double begin, double end, int64_t count)>;

// Visits the bins, and the counts outside of them and of NaN, in the order of
// values.
void ForEachLine(const v1::Histogram& histogram, const Visit& visit) {
  visit(-kInfinity, histogram.low(), histogram.below_count());
  // An invalid histogram from another program has no bins.
  if (histogram.counts_size() > 0 && std::isfinite(histogram.low()) &&
      std::isfinite(histogram.high()) && histogram.low() <= histogram.high()) {
    const std::vector<double> edges = HistogramEdges(
        histogram.low(), histogram.high(), histogram.counts_size());
    for (int i = 0; i < histogram.counts_size(); ++i) {
      const auto bin = static_cast<size_t>(i);
      visit(edges[bin], edges[bin + 1], histogram.counts(i));
    }
  }
  visit(histogram.high(), kInfinity, histogram.above_count());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  visit(nan, nan, histogram.nan_count());
}

// Returns a bar of `width` columns in steps of an eighth. A bar that is not
// empty is visible.
std::string Bar(double width) {
  // The last eight code points of the row, from one eighth to a full block.
  constexpr const char* kEighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                      "\u258c", "\u258b", "\u258a", "\u2589"};
  const auto eighths =
      static_cast<size_t>(std::max(1.0, std::round(width * 8)));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "\u2588";
  return bar + kEighths[eighths % 8];
}

size_t BarWidth(size_t terminal_width) {
  if (terminal_width == 0) return kBarWidth;
  const size_t left =
      terminal_width > kNumbersWidth ? terminal_width - kNumbersWidth : 0;
  return std::clamp(left, kBarWidthMin, kBarWidth);
}

}  // namespace

std::string HistogramTable(const v1::Histogram& histogram, size_t bar_width,
                           ask::Table::Style style) {
  int64_t largest = 1;
  for (const int64_t count : histogram.counts()) {
    largest = std::max(largest, count);
  }
  ask::Table table({{"from", true}, {"to", true}, {"count", true}, {"", false}},
                   style);
  ForEachLine(histogram, [&](double begin, double end, int64_t count) {
    const bool is_bin = std::isfinite(begin) && std::isfinite(end);
    if (!is_bin && count == 0) return;
    const double share =
        static_cast<double>(count) / static_cast<double>(largest);
    table.Add({fmt::format("{:.6g}", begin), fmt::format("{:.6g}", end),
               fmt::format("{}", count),
               is_bin && count > 0 ? Bar(share * static_cast<double>(bar_width))
                                   : std::string()});
  });
  return table.Flush();
}

std::string HistogramCsv(const v1::Histogram& histogram) {
  std::string out = "low,high,count\n";
  ForEachLine(histogram, [&out](double begin, double end, int64_t count) {
    out += fmt::format("{},{},{}\n", begin, end, count);
  });
  return out;
}

ask::Outcome PrintHistogram(Invocation& invocation,
                            const HistogramFlags& flags) {
  v1::ComputeHistogramRequest request;
  request.set_name(flags.name);
  request.set_bin_count(flags.bins == 0 && invocation.is_table() ? kTableBins
                                                                 : flags.bins);
  if (flags.low.has_value()) request.set_low(*flags.low);
  if (flags.high.has_value()) request.set_high(*flags.high);
  v1::Histogram histogram;
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(
      &v1::TensorService::Stub::ComputeHistogram, request, histogram));
  const InvocationOptions& options = invocation.options();
  if (options.format == ask::Format::kTable) {
    invocation.out().Write(
        HistogramTable(histogram, BarWidth(options.terminal.stdout_width),
                       invocation.print_options().table));
    return {};
  }
  if (options.format == ask::Format::kCsv) {
    invocation.out().Write(HistogramCsv(histogram));
    return {};
  }
  return PrintOne(invocation, histogram, /*name=*/{});
}

}  // namespace msitd::msitctl
