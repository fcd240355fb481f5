// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/metric_page.h"

#include <fmt/format.h>

#include <iterator>

#include "protos/base/check.h"

namespace msitd::metrics {
namespace {

// Every value of interest is an integer less than 2^53, which 17 digits
// represent exactly.
std::string Number(double value) { return fmt::format("{:.17g}", value); }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// `more` is a second label in its final syntax.
std::string Labels(const MetricInfo& info, std::string_view value,
                   std::string_view more = {}) {
  std::string out;
  if (!info.label.empty()) {
    out = fmt::format("{}=\"{}\"", info.label, Escaped(value));
  }
  if (!out.empty() && !more.empty()) out += ',';
  out += more;
  return out.empty() ? out : "{" + out + "}";
}

}  // namespace

const MetricInfo& MetricPage::Begin(MetricId id) {
  const MetricInfo& info = InfoOf(id);
  if (last_ == id) return info;
  MSITD_CHECK(!last_.has_value() || *last_ < id);
  last_ = id;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}.\n# TYPE {} {}\n",
                 info.name, info.help, info.name, KindName(info.kind));
  return info;
}

void MetricPage::Put(MetricId id, std::string_view label_value, double value) {
  const MetricInfo& info = Begin(id);
  MSITD_CHECK(info.kind != MetricKind::kHistogram);
  fmt::format_to(std::back_inserter(text_), "{}{} {}\n", info.name,
                 Labels(info, label_value), Number(value));
}

void MetricPage::Put(MetricId id, std::string_view label_value,
                     const Latencies::Snapshot& latencies) {
  const MetricInfo& info = Begin(id);
  MSITD_CHECK(info.kind == MetricKind::kHistogram);
  const auto out = std::back_inserter(text_);
  const auto bucket = [&](const std::string& bound, uint64_t count) {
    fmt::format_to(out, "{}_bucket{} {}\n", info.name,
                   Labels(info, label_value, fmt::format("le=\"{}\"", bound)),
                   count);
  };
  for (size_t i = 0; i < latencies.cumulative.size(); ++i) {
    bucket(fmt::format("{}", Latencies::kBoundsS[i]), latencies.cumulative[i]);
  }
  bucket("+Inf", latencies.count);
  const std::string labels = Labels(info, label_value);
  fmt::format_to(out, "{}_sum{} {}\n{}_count{} {}\n", info.name, labels,
                 Number(latencies.sum_s), info.name, labels, latencies.count);
}

}  // namespace msitd::metrics
