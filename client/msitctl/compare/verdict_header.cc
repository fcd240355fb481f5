// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/verdict_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/text/headline.h"
#include "client/ask/text/maker_text.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/ask/text/tolerance_text.h"
#include "client/ask/text/wrap.h"

namespace msitd::msitctl {
namespace {

std::string Colored(std::string_view text, const char* color, bool is_on) {
  return is_on ? fmt::format("\x1b[{}m{}\x1b[0m", color, text)
               : std::string(text);
}

const char* ColorOf(ask::Conclusion conclusion) {
  switch (conclusion) {
    case ask::Conclusion::kPass:
      return "1;32";
    case ask::Conclusion::kPartial:
      return "1;33";
    case ask::Conclusion::kFail:
      break;
  }
  return "1;31";
}

// Tolerances below the header of a table. The comparison has all of them.
constexpr int kTolerancesShown = 8;

// Prints the labels and values of a header below each other.
class HeaderText {
 public:
  explicit HeaderText(size_t width) : width_(width) {}

  void AddSentence(std::string_view text) {
    if (text.empty()) return;
    text_ += ask::Wrap(text, 0, 0, width_) + "\n\n";
  }

  void AddLine(std::string_view text) {
    text_ += ask::Wrap(text, 0, kLabelColumns, width_) + "\n";
  }

  // `value` may contain escapes for colors, which count as columns.
  void Add(std::string_view label, std::string_view value) {
    text_ +=
        fmt::format("{:<{}}{}\n", label, kLabelColumns,
                    ask::Wrap(value, kLabelColumns, kLabelColumns, width_));
  }

  void AddIfAny(std::string_view label, std::string_view value) {
    if (!value.empty()) Add(label, value);
  }

  std::string Take() { return std::move(text_); }

 private:
  static constexpr size_t kLabelColumns = 18;

  const size_t width_;
  std::string text_;
};

// For a run with two recordings of tensors under one name; empty for any other.
std::string ConflictsText(const char* side, const std::string& run,
                          int64_t count) {
  if (count == 0) return "";
  return fmt::format(
      "{} {}: {} record{} with different bytes; the first ones were compared",
      side, ask::Printable(run), count, count == 1 ? "" : "s");
}

void AddTolerances(const v1::Comparison& comparison, HeaderText& out) {
  int count = 0;
  const char* const label = ask::RequiredToleranceLabel(comparison);
  for (const std::string& needed : ask::RequiredToleranceTexts(comparison)) {
    if (count++ < kTolerancesShown) out.Add(label, needed);
  }
  if (count > kTolerancesShown) {
    out.Add(label, fmt::format("{} more bounds; msitctl compare get {} -o json",
                               count - kTolerancesShown,
                               ask::Printable(comparison.name())));
  }
  out.AddIfAny("no bound helps", ask::HopelessText(comparison));
}

// `; 37 rows fail without being read`.
std::string UnreadText(const v1::Comparison& comparison) {
  const int64_t count = comparison.unread_count();
  if (count == 0) return "";
  return fmt::format("; {} row{} without being read", count,
                     count == 1 ? " fails" : "s fail");
}

// Returns the scope of a verdict that does not cover everything: ` (3 of 108
// sampled)`.
std::string RemarkText(const v1::Comparison& comparison,
                       ask::Conclusion conclusion) {
  if (comparison.state() != v1::Comparison::DONE) {
    return fmt::format(
        " ({})", ask::WordOf(v1::Comparison::State_Name(comparison.state())));
  }
  const int64_t row_count = ask::RowCountOf(comparison);
  if (row_count == comparison.skipped_count()) return " (nothing was compared)";
  if (conclusion == ask::Conclusion::kFail) return "";
  std::vector<std::string> remarks;
  if (ask::LacksRanks(comparison)) {
    remarks.push_back("for the recorded ranks only");
  }
  const int64_t skipped_count =
      comparison.skipped_count() - comparison.allowed_unmatched_count();
  if (skipped_count > 0) {
    remarks.push_back(
        fmt::format("{} of {} not compared", skipped_count, row_count));
  }
  if (comparison.sampled_count() > 0) {
    remarks.push_back(
        fmt::format("{} of {} sampled", comparison.sampled_count(),
                    comparison.pass_count() + comparison.fail_count()));
  }
  if (comparison.statistics_count() > 0) {
    remarks.push_back(
        fmt::format("{} of {} by statistics", comparison.statistics_count(),
                    comparison.pass_count() + comparison.fail_count()));
  }
  if (remarks.empty()) return "";
  return fmt::format(" ({})", fmt::join(remarks, ", "));
}

}  // namespace

HeaderStyle StyleOf(const Invocation& invocation) {
  const InvocationOptions& options = invocation.options();
  return {options.color, options.terminal.stdout_width};
}

std::string VerdictHeader(const v1::Comparison& comparison, Seconds elapsed,
                          ask::Allowed allowed, HeaderStyle style) {
  const ask::Conclusion conclusion = ask::ConclusionOf(comparison, allowed);
  HeaderText out(style.width);
  out.AddSentence(ask::Headline(comparison, allowed));
  out.Add(
      "comparison",
      fmt::format("{}: golden {}, target {}", ask::Printable(comparison.name()),
                  ask::RunPlaceText(comparison.golden_run(),
                                    comparison.golden_source()),
                  ask::RunPlaceText(comparison.target_run(),
                                    comparison.target_source())));
  out.AddIfAny("judged from", ask::Printable(comparison.judged_comparison()));
  out.AddIfAny("restored from", ask::Printable(comparison.restored_from()));
  out.Add("verdict", Colored(ask::VerdictWord(comparison, allowed),
                             ColorOf(conclusion), style.color) +
                         RemarkText(comparison, conclusion));
  if (comparison.has_input_difference()) {
    out.AddLine(ask::InputDifferenceText(comparison.input_difference()));
  }
  out.Add("rows", fmt::format("{}: {}", ask::RowCountOf(comparison),
                              ask::RowCountsText(comparison)));
  out.AddIfAny("requests", ask::RequestsText(comparison));
  out.AddIfAny("not compared", ask::LeftOutText(comparison));
  out.AddIfAny("not recorded", ask::NotRecordedText(comparison));
  out.AddIfAny("recorded twice",
               ConflictsText("golden", comparison.golden_run(),
                             comparison.golden_conflict_count()));
  out.AddIfAny("recorded twice",
               ConflictsText("target", comparison.target_run(),
                             comparison.target_conflict_count()));
  for (const auto& [label, text, row] : ask::FindingTexts(comparison)) {
    out.Add(label, text);
  }
  AddTolerances(comparison, out);
  out.AddIfAny("custom metrics",
               ask::Printable(fmt::format(
                   "{}", fmt::join(comparison.custom_metrics(), ", "))));
  if (comparison.watched_count() > 0) {
    out.Add("watched rows", fmt::format("{}", comparison.watched_count()));
  }
  out.Add(
      "read",
      fmt::format("{} in {}{}", ask::HumanSize(comparison.read_bytes()),
                  ask::HumanDuration(elapsed.count()), UnreadText(comparison)));
  return out.Take();
}

}  // namespace msitd::msitctl
