// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/maker_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/ask/text/partial_text.h"
#include "client/ask/text/text.h"
#include "protos/base/rank_set_message.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
namespace {

// The limit for concurrent divergences in a comparison.
constexpr int kShownConcurrentMax = 8;

// Where a row is.
std::string PlaceText(const v1::ComparisonRow& row) {
  std::string place(IoName(static_cast<Io>(row.io())));
  if (!row.index().empty()) place += "/" + row.index();
  if (row.call() != 0) place += fmt::format(", call {}", row.call());
  if (!row.request().empty()) {
    place += fmt::format(", request {}", Printable(row.request()));
    const std::string& positions =
        row.has_golden() ? row.golden().view() : row.target().view();
    if (!positions.empty()) place += " " + positions;
  }
  return fmt::format("{} {}, {}, token {}, row {}", row.op(), place,
                     RanksText(row), row.token(), row.row());
}

std::string CodeText(const v1::Maker& maker) {
  std::string out =
      maker.op().empty() ? std::string("code") : "own code of " + maker.op();
  // Between two ops that it calls, or until its end.
  const std::string_view comma = maker.op().empty() ? "" : ",";
  if (maker.after().empty() && maker.before().empty()) return out;
  if (maker.after().empty()) {
    return fmt::format("{}{} before {}", out, comma, maker.before());
  }
  if (maker.before().empty()) {
    return fmt::format("{}{} after {}", out, comma, maker.after());
  }
  return fmt::format("{}{} between {} and {}", out, comma, maker.after(),
                     maker.before());
}

std::string WhoText(const v1::Maker& maker, bool may_diverge_before) {
  switch (maker.kind()) {
    case v1::Maker::OWN_CODE:
      return CodeText(maker) + "; ";
    case v1::Maker::MODEL_INPUTS:
      // A missing rank may have caused the difference.
      return may_diverge_before
                 ? fmt::format("inputs of {}: ", RanksText(maker.row()))
                 : "inputs of the model: ";
    case v1::Maker::DRIFT:
      return "accumulated drift, no single op: ";
    case v1::Maker::FLIP:
      return "choices within the noise of their scores, no fault: ";
    case v1::Maker::COPIES:
      if (maker.ranks_size() == 0) return "copies that differ: ";
      return fmt::format(
          "the cop{} of rank{} {}: ", maker.ranks_size() == 1 ? "y" : "ies",
          maker.ranks_size() == 1 ? "" : "s",
          RankSetOfEach(maker.ranks()).Text());
    case v1::Maker::NOT_KNOWN:
      return "not known: ";
    default:
      return "";
  }
}

// `among 3 failing tensors of token 0, whose order is not known; ...`.
std::string AmongText(const v1::Comparison& comparison) {
  const int others = comparison.concurrent_divergences_size();
  const v1::ComparisonRow& first = comparison.first_divergence();
  std::string out =
      comparison.may_diverge_before() ? "at or before one of " : "among ";
  out += fmt::format(
      "{}{} failing tensors of token {}, whose order is not "
      "known; listed first: ",
      others < kShownConcurrentMax ? "" : "at least ", others + 1,
      first.token());
  return out + RowText(first);
}

// Returns the position and size of the first difference of values.
std::string InequalityText(const v1::ComparisonRow& row) {
  std::string out = PlaceText(row);
  for (const v1::MetricValue& metric : row.metrics()) {
    if (metric.metric() != "nl2") continue;
    out += fmt::format(": nl2 = {:.3g}", metric.value());
  }
  return Printable(out);
}

std::string FirstDivergenceText(const v1::Comparison& comparison) {
  // With only one failing tensor, no order is needed.
  if (!HasOrder(comparison) && comparison.concurrent_divergences_size() > 0) {
    return AmongText(comparison);
  }
  std::string out = comparison.may_diverge_before() ? "at or before " : "";
  if (comparison.has_first_divergence()) {
    return out + RowText(comparison.first_divergence());
  }
  return out + (LacksRanks(comparison) ? "none in the recorded ranks"
                : comparison.partial() ? "none in the compared rows"
                                       : "none");
}

}  // namespace

std::string RanksText(const v1::ComparisonRow& row) {
  const auto& target = row.target().ranks();
  const auto& golden = row.golden().ranks();
  const auto& ranks = target.empty() ? golden : target;
  if (ranks.empty()) return fmt::format("rank {}", row.rank());
  std::string out = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                RankSetOfEach(ranks).Text());
  if (!golden.empty() &&
      !std::equal(golden.begin(), golden.end(), ranks.begin(), ranks.end())) {
    out += fmt::format(" (golden {})", RankSetOfEach(golden).Text());
  }
  return out;
}

std::string RowText(const v1::ComparisonRow& row) {
  return Printable(PlaceText(row) +
                   (row.reason().empty() ? "" : ": " + row.reason()));
}

bool HasOrder(const v1::Comparison& comparison) {
  // Otherwise, an unknown cause names the op that fails.
  return comparison.makers().empty() ||
         comparison.makers(0).kind() != v1::Maker::NOT_KNOWN ||
         !comparison.makers(0).op().empty();
}

std::string MakerText(const v1::Maker& maker, bool may_diverge_before,
                      bool has_reason) {
  if (maker.kind() == v1::Maker::NOT_KNOWN && maker.op().empty()) {
    return Printable("not known: " + maker.note());
  }
  std::string out = WhoText(maker, may_diverge_before) + PlaceText(maker.row());
  if (has_reason && !maker.row().reason().empty()) {
    out += ": " + maker.row().reason();
  }
  // Without a cause, the errors may not have been measured. Copies and
  // selections are either right or wrong.
  const bool is_right_or_wrong =
      maker.kind() == v1::Maker::COPIES || maker.kind() == v1::Maker::FLIP;
  if (!is_right_or_wrong &&
      (maker.kind() != v1::Maker::NOT_KNOWN || maker.output_error() != 0)) {
    out += fmt::format("; input error {:.3g}, output error {:.3g}",
                       maker.input_error(), maker.output_error());
  }
  if (!maker.note().empty()) out += "; " + maker.note();
  if (maker.ranks_size() > 0 && maker.kind() != v1::Maker::COPIES) {
    out += fmt::format(" (same on {} {})",
                       maker.ranks_size() == 1 ? "rank" : "ranks",
                       fmt::join(maker.ranks(), ","));
  }
  return Printable(out);
}

std::string ExplanationText(const v1::Explanation& explanation) {
  const std::string where =
      explanation.where().empty() ? "" : explanation.where() + ": ";
  const std::string without =
      std::isfinite(explanation.residual_without())
          ? fmt::format(", {:.3g} without", explanation.residual_without())
          : "";
  return Printable(fmt::format("{}{} (residual {:.2g}{})", where,
                               explanation.text(), explanation.residual(),
                               without));
}

std::string InputDifferenceText(const v1::InputDifference& difference) {
  const v1::ComparisonRow& row = difference.row();
  const std::string choice =
      difference.choice().empty() ? "" : "; " + difference.choice();
  return Printable(fmt::format(
      "inputs of the model differ from token {}: {}; later tokens "
      "differ as a result ({}){}",
      row.token(), difference.difference(), PlaceText(row), choice));
}

std::vector<Finding> FindingTexts(const v1::Comparison& comparison) {
  std::vector<Finding> out;
  const auto add = [&out](std::string_view label,
                          const v1::ComparisonRow& row) {
    out.push_back({label, RowText(row), row.row()});
  };
  out.push_back({"first divergence", FirstDivergenceText(comparison)});
  if (comparison.has_first_divergence()) {
    out.back().row = comparison.first_divergence().row();
  }
  // Without an order, they are further failing tensors.
  if (HasOrder(comparison)) {
    for (const v1::ComparisonRow& row : comparison.concurrent_divergences()) {
      add("concurrent", row);
    }
  }
  const size_t divergence_count = out.size();
  if (comparison.has_first_inequality()) {
    const v1::ComparisonRow& row = comparison.first_inequality();
    out.push_back({"equal up to", InequalityText(row), row.row()});
  }
  if (comparison.has_first_unmatched()) {
    add("first unmatched", comparison.first_unmatched());
  }
  for (const v1::Maker& maker : comparison.makers()) {
    // Row numbers are not unique among several daemons.
    const std::string row = RowText(maker.row());
    const bool is_shown = std::any_of(
        out.begin(),
        out.begin() + static_cast<std::ptrdiff_t>(divergence_count),
        [&row](const Finding& finding) { return finding.text.ends_with(row); });
    out.push_back({&maker == &comparison.makers(0) ? "cause" : "further cause",
                   MakerText(maker, comparison.may_diverge_before(),
                             /*has_reason=*/!is_shown),
                   maker.row().row()});
    for (const v1::Explanation& explanation : maker.explanations()) {
      out.push_back(
          {"explanation", ExplanationText(explanation), maker.row().row()});
    }
  }
  if (const int64_t more = comparison.more_makers_count(); more > 0) {
    out.push_back({"further cause",
                   fmt::format("{} more that are independent of these", more),
                   comparison.makers(0).row().row()});
  }
  if (comparison.has_first_skipped()) {
    add("first skipped", comparison.first_skipped());
  }
  if (comparison.has_first_non_finite()) {
    add("first NaN or Inf", comparison.first_non_finite());
    if (!HasOrder(comparison)) {
      out.back().text = "among those whose order is not known; listed first: " +
                        out.back().text;
    }
  }
  if (comparison.both_non_finite_count() > 0) {
    const v1::ComparisonRow& first = comparison.first_both_non_finite();
    out.push_back(
        {"NaN/Inf in both",
         fmt::format(
             "{} row{}, {} {}", comparison.both_non_finite_count(),
             comparison.both_non_finite_count() == 1 ? "" : "s",
             HasOrder(comparison) ? "first" : "listed first:", RowText(first)),
         first.row()});
  }
  return out;
}

std::string RowCountsText(const v1::Comparison& comparison) {
  std::string out =
      fmt::format("{} pass, {} fail, {} unmatched, {} skipped",
                  comparison.pass_count(), comparison.fail_count(),
                  comparison.unmatched_count(), comparison.skipped_count());
  if (comparison.allowed_unmatched_count() > 0) {
    out += fmt::format(" ({} unmatched and allowed)",
                       comparison.allowed_unmatched_count());
  }
  if (comparison.statistics_count() > 0) {
    out +=
        fmt::format("; {} by statistics only", comparison.statistics_count());
    if (comparison.statistics_in_part_count() > 0) {
      out += fmt::format(", {} of them in part",
                         comparison.statistics_in_part_count());
    }
  }
  if (comparison.flipped_count() > 0) {
    out += fmt::format("; {} with choices that differ within the noise",
                       comparison.flipped_count());
  }
  if (comparison.explained_count() > 0) {
    out += fmt::format("; {} beyond their bounds, explained by rounding errors",
                       comparison.explained_count());
  }
  return out;
}

std::string LeftOutText(const v1::Comparison& comparison) {
  const int64_t golden = comparison.golden_left_out_count();
  const int64_t target = comparison.target_left_out_count();
  if (golden == 0 && target == 0) return "";
  // By default, a comparison uses statistics.
  const bool are_values = comparison.filter().kinds().empty();
  return fmt::format("{} golden and {} target {} (use --kind all)", golden,
                     target, are_values ? "values" : "values and statistics");
}

std::string RequestsText(const v1::Comparison& comparison) {
  if (!comparison.matching().by_request()) return "";
  std::string out =
      fmt::format("{} in both runs", comparison.joined_request_count());
  if (comparison.renamed_request_count() > 0) {
    out += fmt::format(", {} of them with different ids, paired by order",
                       comparison.renamed_request_count());
  }
  if (comparison.golden_only_request_count() > 0) {
    out += fmt::format("; {} only in golden",
                       comparison.golden_only_request_count());
  }
  if (comparison.target_only_request_count() > 0) {
    out += fmt::format("; {} only in target, not compared",
                       comparison.target_only_request_count());
  }
  if (comparison.target_only_position_count() > 0) {
    out += fmt::format("; {} positions only in target, not compared",
                       comparison.target_only_position_count());
  }
  return out;
}

std::string NotRecordedText(const v1::Comparison& comparison) {
  const int64_t golden = comparison.golden_not_recorded_count();
  const int64_t target = comparison.target_not_recorded_count();
  if (golden == 0 && target == 0) return "";
  return Printable(fmt::format(
      "{} golden and {} target tensors (see msitctl capture coverage {})",
      golden, target,
      target > 0 ? comparison.target_run() : comparison.golden_run()));
}

}  // namespace msitd::ask
