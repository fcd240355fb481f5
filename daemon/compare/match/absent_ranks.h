// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/matcher.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// What of one run of a comparison is not there because ranks of it are not.
class AbsentRanks {
 public:
  // `places_of` gives the places of the golden run at which tensors of a rank
  // are compared; ranks without any do not count.
  using PlacesOf = absl::FunctionRef<std::vector<int32_t>(int32_t rank)>;
  AbsentRanks(std::string run, storage::RunRanks ranks, PlacesOf places_of);

  const storage::RunRanks& ranks() const { return ranks_; }

  // True if an absent rank may have tensors of a place, or parts of them.
  bool MayHave(int32_t place) const { return places_.contains(place); }

  // Takes note of a row of a place that MayHave holds for; rows come in the
  // order of their tokens.
  void Note(int32_t place, int64_t token) {
    first_tokens_.emplace(place, token);
  }

  // The first token at which an absent rank may have tensors, as far as rows
  // tell; nothing if no rank is absent.
  std::optional<int64_t> first_token() const;

  // `run tp8 lacks ranks 2-3`.
  std::string Text() const;

 private:
  std::string run_;
  storage::RunRanks ranks_;
  std::set<int32_t> places_;
  std::map<int32_t, int64_t> first_tokens_;  // Of places with rows.
};

// Which ranks of both runs of a comparison have come.
struct RanksOfRuns {
  storage::RunRanks golden;
  storage::RunRanks target;

  // Errors: those of the store.
  static absl::StatusOr<RanksOfRuns> Find(storage::ChunkStore& store,
                                          const std::string& golden_run,
                                          const std::string& target_run);
};

// What is not there of both runs of a comparison. Thread-compatible.
struct AbsentSides {
  AbsentSides(const std::string& golden_run, const std::string& target_run,
              RanksOfRuns ranks, const TensorMatcher& matcher);

  // If what is missing of a pair that is UNMATCHED at `place` may be on ranks
  // that are not there, says so in its row.
  void Explain(const TensorPair& pair, int32_t place, v1::ComparisonRow& row);

  // The first of both sides; nothing if no rank of either is absent.
  std::optional<int64_t> first_token() const;

  AbsentRanks golden;
  AbsentRanks target;
};

}  // namespace msitd::compare
