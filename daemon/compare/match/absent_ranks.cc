// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/absent_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/shard/assembly.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// True if a side of a pair is not there, or not whole.
bool IsMissing(const LogicalTensor* tensor) {
  return tensor == nullptr || !HasAllShards(*tensor);
}

}  // namespace

AbsentRanks::AbsentRanks(std::string run, storage::RunRanks ranks,
                         PlacesOf places_of)
    : run_(std::move(run)), ranks_(std::move(ranks)) {
  std::erase_if(ranks_.held,
                [places_of](int32_t rank) { return places_of(rank).empty(); });
  std::vector<int32_t> lacking;
  for (const storage::RankRange& range : ranks_.lacking) {
    for (int32_t rank = range.first; rank <= range.last; ++rank) {
      const std::vector<int32_t> places = places_of(rank);
      places_.insert(places.begin(), places.end());
      if (!places.empty()) lacking.push_back(rank);
    }
  }
  ranks_.lacking = storage::ToRanges(lacking);
}

std::string AbsentRanks::Text() const {
  const std::vector<storage::RankRange>& lacking = ranks_.lacking;
  const bool is_one =
      lacking.size() == 1 && lacking.front().first == lacking.front().last;
  return fmt::format("run {} lacks rank{} {}", run_, is_one ? "" : "s",
                     RanksText(lacking));
}

std::optional<int64_t> AbsentRanks::first_token() const {
  if (places_.empty()) return std::nullopt;
  // Of a place without rows nothing is known.
  if (first_tokens_.size() < places_.size()) return 0;
  int64_t first = first_tokens_.begin()->second;
  for (const auto& [place, token] : first_tokens_) {
    first = std::min(first, token);
  }
  return first;
}

absl::StatusOr<RanksOfRuns> RanksOfRuns::Find(storage::ChunkStore& store,
                                              const std::string& golden_run,
                                              const std::string& target_run) {
  RanksOfRuns out;
  MSITD_ASSIGN_OR_RETURN(out.golden,
                         storage::FindRunRanks(store, golden_run, {}));
  MSITD_ASSIGN_OR_RETURN(out.target,
                         storage::FindRunRanks(store, target_run, {}));
  return out;
}

AbsentSides::AbsentSides(const std::string& golden_run,
                         const std::string& target_run, RanksOfRuns ranks,
                         const TensorMatcher& matcher)
    : golden(golden_run, std::move(ranks.golden),
             [&](int32_t rank) { return matcher.PlacesOfGoldenRank(rank); }),
      target(target_run, std::move(ranks.target),
             [&](int32_t rank) { return matcher.PlacesOfTargetRank(rank); }) {}

std::optional<int64_t> AbsentSides::first_token() const {
  const std::optional<int64_t> a = golden.first_token();
  const std::optional<int64_t> b = target.first_token();
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

void AbsentSides::Explain(const TensorPair& pair, int32_t place,
                          v1::ComparisonRow& row) {
  std::string why;
  for (const bool is_target : {false, true}) {
    AbsentRanks& side = is_target ? target : golden;
    if (!IsMissing(is_target ? pair.target : pair.golden)) continue;
    // What nothing explains is proven.
    if (!side.MayHave(place)) return;
    side.Note(place, row.token());
    why += "; " + side.Text();
  }
  if (why.empty()) return;
  row.set_for_want_of_ranks(true);
  row.set_reason(row.reason() + why);
}

}  // namespace msitd::compare
