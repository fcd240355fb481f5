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
#include "daemon/compare/match/rank_ranges.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// What of one run of a comparison is not there because ranks of it are not.
class AbsentRanks {
 public:
  // `ranks` are those of the run that the comparison would look at,
  // `group_numbers` those of the golden run for which lacking ones may have
  // tensors, `text` names all that the run lacks.
  AbsentRanks(storage::RunRanks ranks, RankRanges group_numbers,
              std::string text);

  const storage::RunRanks& ranks() const { return ranks_; }
  const RankRanges& lacking() const { return lacking_; }

  // Takes note of a row that lacks something; rows come in the order of their
  // tokens.
  void Note(int32_t group_number, int64_t token) {
    if (!group_numbers_.Has(group_number)) return;
    first_tokens_.emplace(group_number, token);
  }

  // The first token at which an absent rank may have tensors, as far as rows
  // tell; nothing if no rank is absent.
  std::optional<int64_t> first_token() const;

  // `run tp8 lacks ranks 2-3`: all that it lacks, whatever is looked at, so
  // that a row says the same whichever ranks are compared together.
  const std::string& text() const { return text_; }

 private:
  storage::RunRanks ranks_;
  RankRanges lacking_;
  RankRanges group_numbers_;
  std::string text_;
  std::map<int32_t, int64_t> first_tokens_;  // If there are rows.
};

// Which ranks of both runs of a comparison have come.
struct RanksOfRuns {
  storage::RunRanks golden;
  storage::RunRanks target;

  // Errors: those of the readers.
  static absl::StatusOr<RanksOfRuns> Find(storage::RunReader& golden,
                                          storage::RunReader& target);
};

// Ranks of both runs that an answer has to cover, of which the comparison may
// give a part: those that are held elsewhere are absent here.
struct RequiredRanks {
  std::vector<storage::RankRange> golden;
  std::vector<storage::RankRange> target;
};

// What is not there of both runs of a comparison. Thread-compatible.
class AbsentSides {
 public:
  // The matcher must live as long as Explain is called.
  AbsentSides(const std::string& golden_run, const std::string& target_run,
              RanksOfRuns ranks, const RequiredRanks& required,
              const GroupMatcher& matcher);

  const AbsentRanks& golden() const { return golden_; }
  const AbsentRanks& target() const { return target_; }

  // Says in the row of a tensor that one run has alone if the other has ended
  // before.
  //
  // Errors: those of the readers.
  absl::Status ExplainEnd(const TensorPair& pair, int32_t group_number,
                          v1::ComparisonRow& row);

  // If all that is missing of a pair that is UNMATCHED may be on ranks
  // that are not there, and on these alone, says so in its row.
  void Explain(const TensorPair& pair, int32_t group_number,
               v1::ComparisonRow& row);

  // The first of both sides; nothing if no rank of either is absent.
  std::optional<int64_t> first_token() const;

 private:
  // Whether what is missing of one side of a pair may be on absent ranks alone.
  bool IsExplained(const TensorPair& pair, bool is_target,
                   int32_t group_number) const;

  const GroupMatcher* matcher_;
  std::string golden_run_;
  std::string target_run_;
  AbsentRanks golden_;
  AbsentRanks target_;
  // GroupMatcher::LastToken of those that were asked for, by is_target and
  // group number.
  std::map<std::pair<bool, int32_t>, std::optional<int64_t>> last_tokens_;
};

}  // namespace msitd::compare
