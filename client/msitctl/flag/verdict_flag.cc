// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/verdict_flag.h"

#include <algorithm>
#include <iterator>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/ranges.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr v1::Verdict kVerdicts[] = {v1::PASS, v1::FAIL, v1::UNMATCHED,
                                     v1::SKIPPED};

std::string WordFor(v1::Verdict verdict) {
  return ask::WordOf(v1::Verdict_Name(verdict));
}

}  // namespace

void AddVerdictFlag(CLI::App& verb, std::vector<std::string>& texts) {
  std::vector<std::string> words;
  std::transform(std::begin(kVerdicts), std::end(kVerdicts),
                 std::back_inserter(words), WordFor);
  AddTexts(verb, "--verdict", texts,
           "pass, fail, unmatched, skipped; default all")
      ->check(ListOf(std::move(words)))
      ->type_name("LIST");
}

absl::StatusOr<std::vector<v1::Verdict>> ParseVerdicts(
    const std::vector<std::string>& texts) {
  std::vector<v1::Verdict> verdicts;
  for (const std::string& word : ask::SplitLists(texts)) {
    const auto* const found =
        std::find_if(std::begin(kVerdicts), std::end(kVerdicts),
                     [&word](v1::Verdict v) { return WordFor(v) == word; });
    if (found == std::end(kVerdicts)) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "--verdict: \"{}\" is not pass, fail, unmatched or "
                        "skipped",
                        word);
    }
    verdicts.push_back(*found);
  }
  return verdicts;
}

std::string VerdictFlagText(const std::vector<v1::Verdict>& verdicts) {
  std::string out;
  for (const v1::Verdict verdict : verdicts) {
    out += (out.empty() ? " --verdict " : ",") + WordFor(verdict);
  }
  return out;
}

}  // namespace msitd::msitctl
