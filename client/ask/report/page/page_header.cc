// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/page_header.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <map>
#include <string_view>
#include <utility>

#include "client/ask/report/page/matching_text.h"
#include "client/ask/text/headline.h"
#include "client/ask/text/json_text.h"
#include "client/ask/text/maker_text.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/ask/text/tolerance_text.h"

namespace msitd::ask {
namespace {

std::string RunText(const std::string& name, const std::string& source,
                    const std::optional<v1::Run>& run, int64_t conflict_count) {
  std::string out = RunPlaceText(name, source);
  if (!source.empty()) return out;
  if (!run.has_value()) return out + "; deleted";
  out += run->world_size() == 0
             ? "; world size unknown"
             : fmt::format("; world size {}", run->world_size());
  if (run->has_create_time()) {
    out += "; recorded " + TimeText(run->create_time());
  }
  if (run->state() == v1::Run::ACTIVE) out += "; not sealed";
  const std::map<std::string, std::string> labels(run->labels().begin(),
                                                  run->labels().end());
  for (const auto& [key, value] : labels) {
    out += Printable(fmt::format("; {}={}", key, value));
  }
  if (conflict_count > 0) {
    out += fmt::format(
        "; {} record{} repeated with different bytes, the first ones were "
        "compared",
        conflict_count, conflict_count == 1 ? "" : "s");
  }
  return out;
}

// Empty if every row was compared whole.
std::string NotComparedText(const v1::Comparison& comparison) {
  std::string out;
  const auto add = [&out](int64_t count, std::string_view what, int64_t part,
                          std::string_view which) {
    if (count == 0) return;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, what);
    if (part > 0) out += fmt::format(" ({} {})", part, which);
  };
  add(comparison.unmatched_count(), "unmatched",
      comparison.for_want_of_ranks_count(), "for lack of ranks");
  add(comparison.skipped_count(), "skipped",
      comparison.allowed_unmatched_count(), "unmatched and allowed");
  add(comparison.sampled_count(), "by samples only", 0, "");
  add(comparison.unread_count(), "failed unread", 0, "");
  return out;
}

void AddTolerances(const v1::Comparison& comparison,
                   std::vector<PageFact>& facts) {
  for (std::string& needed : RequiredToleranceTexts(comparison)) {
    facts.push_back({RequiredToleranceLabel(comparison), std::move(needed)});
  }
  if (comparison.hopeless_count() > 0) {
    facts.push_back({"no bound helps", HopelessText(comparison),
                     comparison.first_hopeless_row()});
  }
}

}  // namespace

std::string TitleText(const v1::Comparison& comparison) {
  std::string out = Headline(comparison, /*allowed=*/false);
  if (!out.empty()) return out;
  return Printable(fmt::format(
      "Comparison {} of {} with {} has no result: {}.", comparison.name(),
      comparison.target_run(), comparison.golden_run(),
      WordOf(v1::Comparison::State_Name(comparison.state()))));
}

std::string TimeText(google::protobuf::Timestamp time) {
  time.set_nanos(0);
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::vector<PageFact> FindingFacts(const v1::Comparison& comparison) {
  std::vector<PageFact> facts;
  if (!comparison.judged_comparison().empty()) {
    facts.push_back({"judged from", Printable(comparison.judged_comparison())});
  }
  if (comparison.partial()) {
    facts.push_back({"partial", PartialLines(comparison)});
  }
  if (!comparison.error().empty()) {
    facts.push_back({"error", Printable(comparison.error())});
  }
  for (Finding& finding : FindingTexts(comparison)) {
    facts.push_back(
        {std::string(finding.label), std::move(finding.text), finding.row});
  }
  if (comparison.has_input_difference()) {
    facts.push_back({"inputs",
                     InputDifferenceText(comparison.input_difference()),
                     comparison.input_difference().row().row()});
  }
  facts.push_back({"rows", RowCountsText(comparison)});
  if (std::string requests = RequestsText(comparison); !requests.empty()) {
    facts.push_back({"requests", std::move(requests)});
  }
  if (std::string left_out = LeftOutText(comparison); !left_out.empty()) {
    facts.push_back({"not compared", std::move(left_out)});
  }
  if (std::string lacks = NotRecordedText(comparison); !lacks.empty()) {
    facts.push_back({"not recorded", std::move(lacks)});
  }
  const std::string not_compared = NotComparedText(comparison);
  if (!not_compared.empty())
    facts.push_back({"not fully compared", not_compared});
  AddTolerances(comparison, facts);
  return facts;
}

std::vector<PageFact> SetupFacts(const v1::Comparison& comparison,
                                 const PageFacts& page) {
  std::vector<PageFact> facts = {
      {"golden", RunText(comparison.golden_run(), comparison.golden_source(),
                         page.golden, comparison.golden_conflict_count())},
      {"target", RunText(comparison.target_run(), comparison.target_source(),
                         page.target, comparison.target_conflict_count())}};
  std::string state = WordOf(v1::Comparison::State_Name(comparison.state()));
  if (comparison.has_create_time()) {
    state += "; requested " + TimeText(comparison.create_time());
  }
  if (comparison.has_end_time()) {
    state += "; ended " + TimeText(comparison.end_time());
  }
  facts.push_back({"comparison", std::move(state)});
  for (const std::string& line : PolicyLines(comparison.policy())) {
    facts.push_back({"policy", Printable(line)});
  }
  if (comparison.has_filter()) {
    facts.push_back({"filter", Printable(ToJson(comparison.filter(), false))});
  }
  if (comparison.has_matching()) {
    for (const std::string& line : MatchingLines(comparison.matching())) {
      facts.push_back({"matching", Printable(line)});
    }
  }
  for (const std::string& rule : comparison.idle_rules()) {
    facts.push_back({"matched no op", Printable(rule)});
  }
  for (const std::string& flag : comparison.pairing_hints()) {
    facts.push_back({"would pair more", Printable(flag)});
  }
  for (const v1::ViewHint& hint : comparison.view_hints()) {
    facts.push_back({"rearranged", Printable(hint.finding())});
    for (const std::string& flag : hint.flags()) {
      facts.push_back({"would compare it", Printable(flag)});
    }
  }
  for (const std::string& metric : comparison.custom_metrics()) {
    facts.push_back({"custom metric", Printable(metric)});
  }
  return facts;
}

}  // namespace msitd::ask
