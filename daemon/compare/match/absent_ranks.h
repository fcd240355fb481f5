// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/rank_set.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// The tensors that one run of a comparison lacks because ranks of the run are
// absent. Such a rank has not recorded anything yet, or its data is on another
// machine.
//
// Thread-compatible.
class AbsentRanks {
 public:
  // `ranks` are those that the comparison considers. `group_numbers` are the
  // golden group numbers for which the lacking ranks may have tensors. `text`
  // names all ranks that the run lacks.
  AbsentRanks(storage::RunRanks ranks, RankSet group_numbers, std::string text);

  const storage::RunRanks& ranks() const { return ranks_; }
  const RankSet& lacking() const { return ranks_.lacking; }

  // Records that a row lacks a tensor of this run. Rows are recorded in the
  // order of their tokens.
  void Note(int32_t group_number, int64_t token) {
    if (!group_numbers_.Has(group_number)) return;
    first_tokens_.emplace(group_number, token);
  }

  // Returns the first token at which an absent rank may have tensors, according
  // to the recorded rows. Returns nothing if no rank is absent.
  std::optional<int64_t> first_token() const;

  // Text such as `run tp8 lacks ranks 2-3`, or `run tp8 lacks ranks 2-3 on this
  // node` if the comparison is one part of a distributed one. Names all ranks
  // that the run lacks, even those that the comparison does not consider. Rows
  // therefore have the same text for all selections of ranks.
  const std::string& text() const { return text_; }

 private:
  storage::RunRanks ranks_;
  RankSet group_numbers_;
  std::string text_;
  // By golden group number. Has no entry for numbers without rows.
  std::map<int32_t, int64_t> first_tokens_;
};

// The ranks that each run has, and those that it lacks.
struct RanksOfRuns {
  storage::RunRanks golden;
  storage::RunRanks target;

  // Errors: those of the readers.
  static absl::StatusOr<RanksOfRuns> Find(storage::RunReader& golden,
                                          storage::RunReader& target);
};

// Ranks of both runs that the complete result must cover. The comparison may be
// one part of a distributed one. Required ranks that are held elsewhere then
// count as absent.
struct RequiredRanks {
  RankSet golden;
  RankSet target;
};

// The absent ranks of both runs of a comparison. Thread-compatible.
class AbsentSides {
 public:
  // `matcher` must outlive this object.
  AbsentSides(const std::string& golden_run, const std::string& target_run,
              RanksOfRuns ranks, const RequiredRanks& required,
              const GroupMatcher& matcher);

  const AbsentRanks& golden() const { return golden_; }
  const AbsentRanks& target() const { return target_; }

  // Extends the reason of a row with only one tensor if the other run has ended
  // before this token. Does nothing for rows with both tensors.
  //
  // Errors: those of the readers.
  absl::Status ExplainEnd(const TensorPair& pair, int32_t group_number,
                          v1::ComparisonRow& row);

  // Marks the row of an UNMATCHED pair as inconclusive and extends its reason,
  // if everything that is missing may be on absent ranks. Does nothing if a
  // rank that is present should have some of it.
  void Explain(const TensorPair& pair, int32_t group_number,
               v1::ComparisonRow& row);

  // Returns the earlier of the first tokens of both sides, or nothing if no
  // rank is absent.
  std::optional<int64_t> first_token() const;

 private:
  // Returns whether everything that is missing of one side of a pair may be on
  // absent ranks.
  bool IsExplained(const TensorPair& pair, bool is_target,
                   int32_t group_number) const;

  const GroupMatcher* matcher_;
  std::string golden_run_;
  std::string target_run_;
  AbsentRanks golden_;
  AbsentRanks target_;
  // Cached results of GroupMatcher::LastToken, by `is_target` and golden group
  // number.
  std::map<std::pair<bool, int32_t>, std::optional<int64_t>> last_tokens_;
};

}  // namespace msitd::compare
