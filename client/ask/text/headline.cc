// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/headline.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "client/ask/text/maker_text.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/text.h"
#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

// The names of both runs in a sentence.
struct Sides {
  std::string golden;
  std::string target;
};

std::string Tensors(int64_t count) {
  return fmt::format("{} tensor{}", count, count == 1 ? "" : "s");
}

// `(rank 0, token 3)`.
std::string WhenText(const v1::ComparisonRow& row) {
  const std::string call =
      row.call() == 0 ? "" : fmt::format("call {}, ", row.call());
  const std::string request =
      row.request().empty()
          ? ""
          : fmt::format(", request {}", Printable(row.request()));
  return fmt::format("({}{}, token {}{})", call, RanksText(row), row.token(),
                     request);
}

// `0.65 %`. Empty if the error is not a number.
std::string Percent(double error) {
  return std::isfinite(error) ? fmt::format("{:.2g} %", 100 * error) : "";
}

// `: its inputs are equal, its output differs by 8.8 %`. Empty if the errors
// are not known.
std::string ErrorsText(const v1::Maker& maker) {
  const std::string output = Percent(maker.output_error());
  const std::string input = Percent(maker.input_error());
  if (output.empty() || input.empty() || maker.output_error() == 0) return "";
  if (maker.input_error() == 0) {
    return fmt::format(": its inputs are equal, its output differs by {}",
                       output);
  }
  return fmt::format(": its inputs differ by {}, its output by {}", input,
                     output);
}

std::string OwnCodeText(const v1::Maker& maker) {
  std::string out =
      maker.op().empty() ? "the code" : "the own code of " + maker.op();
  if (!maker.after().empty()) out += " after " + maker.after();
  if (!maker.before().empty()) {
    out +=
        (maker.after().empty() ? " before " : " and before ") + maker.before();
  }
  return out;
}

std::string CopiesText(const v1::Maker& maker) {
  std::string out =
      fmt::format("the copies of {} differ between ranks", maker.row().op());
  if (maker.ranks_size() > 0) {
    out += fmt::format(": rank{} {} {} not like the others",
                       maker.ranks_size() == 1 ? "" : "s",
                       RankSetOfEach(maker.ranks()).Text(),
                       maker.ranks_size() == 1 ? "is" : "are");
  }
  return out;
}

// `differs from golden from root.4.linear1 on (rank 0, token 0)`.
std::string FromOpText(const Sides& sides, const v1::Comparison& comparison,
                       const std::string& op, const v1::ComparisonRow& row) {
  if (comparison.may_diverge_before()) {
    return fmt::format("{} differs from {} at or before {} {}", sides.target,
                       sides.golden, op, WhenText(row));
  }
  return fmt::format("{} differs from {} from {} on {}", sides.target,
                     sides.golden, op, WhenText(row));
}

std::string CauseText(const Sides& sides, const v1::Comparison& comparison,
                      const v1::Maker& maker) {
  const v1::ComparisonRow& row = maker.row();
  switch (maker.kind()) {
    case v1::Maker::OP:
      return FromOpText(sides, comparison, maker.op(), row) + ErrorsText(maker);
    case v1::Maker::WEIGHT:
      return FromOpText(sides, comparison, maker.op(), row) +
             fmt::format(": its weight {} is another one", row.index());
    case v1::Maker::OWN_CODE:
      return FromOpText(sides, comparison, OwnCodeText(maker), row);
    case v1::Maker::MODEL_INPUTS:
      return fmt::format(
          "{} differs from {}: the inputs of {} differ already", sides.target,
          sides.golden,
          comparison.may_diverge_before() ? RanksText(row) : "the model");
    case v1::Maker::DRIFT:
      return fmt::format(
          "{} drifts away from {}: rounding errors add up until {} fails {}; "
          "no single op is to blame",
          sides.target, sides.golden, row.op(), WhenText(row));
    case v1::Maker::FLIP:
      return fmt::format(
          "{} parts from {} at {} {}, where a choice differs within the noise "
          "of its scores; no op is to blame",
          sides.target, sides.golden, row.op(), WhenText(row));
    case v1::Maker::COPIES:
      return fmt::format("{} differs from {}: {}", sides.target, sides.golden,
                         CopiesText(maker));
    default:
      return FromOpText(sides, comparison, row.op(), row) +
             "; which op made the difference is not known";
  }
}

std::string FailureText(const Sides& sides, const v1::Comparison& comparison) {
  const int64_t compared = comparison.pass_count() + comparison.fail_count();
  const int64_t unmatched = comparison.unmatched_count();
  if (comparison.has_input_difference()) {
    return fmt::format(
        "{} and {} got different inputs from token {} on ({}); what the model "
        "computed from them differs as a result",
        sides.target, sides.golden, comparison.input_difference().row().token(),
        comparison.input_difference().difference());
  }
  if (compared == 0 && unmatched > 0) {
    return fmt::format(
        "{} and {} have no tensor in common: {} in only one of them",
        sides.target, sides.golden,
        Tensors(unmatched) + (unmatched == 1 ? " is" : " are"));
  }
  if (compared == 0) {
    return RowCountOf(comparison) == 0
               ? fmt::format("{} and {} have no tensors to compare",
                             sides.target, sides.golden)
               : fmt::format("nothing of {} and {} could be compared",
                             sides.target, sides.golden);
  }
  if (comparison.fail_count() == 0) {
    return fmt::format("{} agrees with {} in {}, but {} in only one of them",
                       sides.target, sides.golden,
                       Tensors(comparison.pass_count()),
                       Tensors(unmatched) + (unmatched == 1 ? " is" : " are"));
  }
  if (!HasOrder(comparison)) {
    return fmt::format(
        "{} differs from {} from token {} on; the order of execution is not "
        "known, so the first op that differs is one of several",
        sides.target, sides.golden, comparison.first_divergence().token());
  }
  if (!comparison.makers().empty()) {
    return CauseText(sides, comparison, comparison.makers(0));
  }
  if (!comparison.has_first_divergence()) {
    return fmt::format("{} differs from {}", sides.target, sides.golden);
  }
  const v1::ComparisonRow& first = comparison.first_divergence();
  return FromOpText(sides, comparison, first.op(), first);
}

// `; 376 of 1044 tensors fail, 2 have no counterpart`.
std::string CountsText(const v1::Comparison& comparison) {
  if (comparison.fail_count() == 0) return "";
  const int64_t compared = comparison.pass_count() + comparison.fail_count();
  std::string out =
      fmt::format(". {} of {} fail{}", comparison.fail_count(),
                  Tensors(compared), comparison.fail_count() == 1 ? "s" : "");
  const int64_t unmatched = comparison.unmatched_count();
  if (unmatched > 0) {
    out += fmt::format(", {} without a counterpart", unmatched);
  }
  return out;
}

// Returns a remark for runs that agree only if rows may be in any order; empty
// if no view permits that.
std::string AnyOrderText(const v1::Comparison& comparison) {
  const v1::Matching& matching = comparison.matching();
  for (const auto* const views :
       {&matching.golden_views(), &matching.target_views()}) {
    for (const v1::View& view : *views) {
      if (view.view().find("any_order(") != std::string::npos) {
        return ", in any order of rows where views permit it";
      }
    }
  }
  return "";
}

std::string PassText(const Sides& sides, const v1::Comparison& comparison) {
  const int64_t others = RowCountOf(comparison) - comparison.pass_count();
  // Missing data may differ, even if the user allows that it is missing.
  const bool is_equal = !comparison.partial() &&
                        !comparison.has_first_inequality() && others == 0 &&
                        comparison.sampled_count() == 0 &&
                        comparison.statistics_count() == 0;
  if (is_equal) {
    return fmt::format("{} equals {}: the same values in {}{}", sides.target,
                       sides.golden, Tensors(comparison.pass_count()),
                       AnyOrderText(comparison));
  }
  std::string out = fmt::format(
      "{} agrees with {}: {} within tolerance{}", sides.target, sides.golden,
      Tensors(comparison.pass_count()), AnyOrderText(comparison));
  if (others > 0) out += fmt::format(", {} not compared", others);
  return out;
}

}  // namespace

std::string Headline(const v1::Comparison& comparison, Allowed allowed) {
  if (comparison.state() != v1::Comparison::DONE) return "";
  const Sides sides = {
      RunPlaceText(comparison.golden_run(), comparison.golden_source()),
      RunPlaceText(comparison.target_run(), comparison.target_source())};
  switch (ConclusionOf(comparison, allowed)) {
    case Conclusion::kPass:
      return Printable(PassText(sides, comparison) + ".");
    case Conclusion::kPartial:
      return Printable(fmt::format(
          "{} agrees with {} as far as they could be compared, which is not "
          "everything: {} within tolerance.",
          sides.target, sides.golden, Tensors(comparison.pass_count())));
    case Conclusion::kFail:
      break;
  }
  return Printable(FailureText(sides, comparison) + CountsText(comparison) +
                   ".");
}

}  // namespace msitd::ask
