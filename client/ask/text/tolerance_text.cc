// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/tolerance_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

constexpr int kDigits = 6;

double Parsed(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

// Returns `value` with few digits, rounded down or up, or exactly if that
// fails.
std::string Rounded(double value, bool down) {
  const auto serves = [value, down](const std::string& text) {
    return down ? Parsed(text) <= value : Parsed(text) >= value;
  };
  std::string text = fmt::format("{:.{}g}", value, kDigits);
  if (serves(text)) return text;
  const double unit =
      std::pow(10, std::floor(std::log10(std::fabs(value))) - (kDigits - 1));
  text = fmt::format("{:.{}g}", Parsed(text) + (down ? -unit : unit), kDigits);
  return serves(text) ? text : fmt::format("{}", value);
}

// Returns the operator as the user wrote it, with the metric on the left.
std::string_view OperatorOf(const v1::RequiredTolerance& needed) {
  const bool is_above = needed.at_least() != needed.negated();
  const bool is_strict = needed.strict() != needed.negated();
  if (is_above) return is_strict ? ">" : ">=";
  return is_strict ? "<" : "<=";
}

std::string BoundText(const v1::RequiredTolerance& needed) {
  const std::string number = Rounded(needed.required(), needed.at_least());
  if (needed.element_tolerance()) {
    const std::string_view metric = needed.metric();
    return fmt::format("{}={}", metric.substr(0, metric.find('_')), number);
  }
  return fmt::format("{}{} {} {}", needed.negated() ? "not " : "",
                     needed.metric(), OperatorOf(needed), number);
}

// Returns true if a target of zeros satisfies the bound for any golden tensor,
// so that the bound is meaningless.
bool ZerosWouldPass(const v1::RequiredTolerance& needed) {
  static constexpr std::string_view kRelative[] = {
      "nl2",         "scaled_max_abs",  "row_nl2_max",
      "row_nl2_p50", "channel_nl2_max", "channel_nl2_p50"};
  return !needed.at_least() && !needed.element_tolerance() &&
         needed.required() >= 1 &&
         std::find(std::begin(kRelative), std::end(kRelative),
                   needed.metric()) != std::end(kRelative);
}

}  // namespace

bool IsViolated(const v1::RequiredTolerance& needed) {
  // No rtol is sufficient if golden is zero, but an atol may be.
  if (needed.element_tolerance() && std::isinf(needed.required())) return false;
  return needed.at_least() ? needed.required() < needed.bound()
                           : needed.required() > needed.bound();
}

std::string RequiredToleranceText(const v1::RequiredTolerance& needed) {
  return fmt::format("{} (now {:g}); row {}", Printable(BoundText(needed)),
                     needed.bound(), needed.row());
}

std::vector<std::string> RequiredToleranceTexts(
    const v1::Comparison& comparison) {
  std::vector<std::string> out;
  const auto& all = comparison.required_tolerances();
  const auto is_alternative = [&all](int i) {
    return i < all.size() && std::isnan(all[i].bound());
  };
  for (int i = 0; i < all.size(); ++i) {
    if (is_alternative(i)) continue;
    if (is_alternative(i + 1)) {
      out.push_back(fmt::format(
          "({} or {} <= {}) (now {:g}); row {}", Printable(BoundText(all[i])),
          Printable(all[i + 1].metric()), Rounded(all[i + 1].required(), false),
          all[i].bound(), all[i + 1].row()));
    } else if (IsViolated(all[i])) {
      out.push_back(RequiredToleranceText(all[i]));
      if (ZerosWouldPass(all[i])) {
        out.back() += "; a target of zeros would also pass";
      }
    }
  }
  return out;
}

const char* RequiredToleranceLabel(const v1::Comparison& comparison) {
  // Data that was not read may require a looser bound.
  const bool would_pass = comparison.hopeless_count() == 0 &&
                          comparison.not_compared_count() == 0 &&
                          comparison.unmatched_count() == 0 &&
                          comparison.unread_count() == 0;
  return would_pass ? "would pass with" : "needs at least";
}

std::string HopelessText(const v1::Comparison& comparison) {
  const int64_t count = comparison.hopeless_count();
  if (count == 0) return "";
  if (count == 1) {
    return fmt::format("row {} fails with any bounds",
                       comparison.first_hopeless_row());
  }
  return fmt::format("{} rows fail with any bounds, the first is row {}", count,
                     comparison.first_hopeless_row());
}

}  // namespace msitd::ask
