// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/origin/rank_order.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/finding_limits.h"

namespace msitd::compare {

// Maximum number of ranks whose first failing row is kept.
inline constexpr size_t kFailingRanksMax = 1024;

// Maximum number of causes that are ordered in addition to the first one of
// each rank. These are the ones with the largest errors.
inline constexpr size_t kPairedMax = 64;

// Maximum number of causes of a rank that are kept, and that are counted. The
// kept ones are the first ones and those with the largest errors.
inline constexpr size_t kRankMakersMax = 8;
inline constexpr size_t kRankPlacesMax = 4096;

// Returns whether both sides are known to have a NaN or an infinity.
bool IsNonFiniteOnBothSides(const v1::ComparisonRow& row);

// Returns whether a row is skipped because the tensor is allowed to exist in
// only one run.
bool IsAllowedUnmatched(const v1::ComparisonRow& row);

// Collects the rows that the header of a comparison shows, and the causes of
// the first difference (the makers of the protocol). The rows are the first
// ones that fail, differ, are not finite, are unmatched, are skipped, or could
// not be compared, and the first one at whose token the model receives
// different integers.
//
// Ranks run in parallel, and sequence numbers order the rows of one rank only.
// The row with the smallest number can therefore be a consequence of another
// rank's difference. This class keeps the first failing row and the causes of
// every rank that fails at the first token with a failure. RankOrder, which
// needs all tensors of these ranks, orders them afterwards (SetOrder). Until
// then, the smallest sequence number counts. This takes memory for a row and up
// to kRankMakersMax causes of each of these ranks. If no cause is found at that
// token, for example because pieces of tensors fail by their shapes, the causes
// are those of the next token that has one.
//
// The causes that are shown:
//
// - The causes of one rank do not follow from each other (OriginFinder). A
//   cause is left out if it is after a cause of another rank, unless both ranks
//   have that one.
// - If several tensors lead to the same op, weight or piece of code, it is one
//   cause.
// - Known causes are listed before drift, flips and unknown causes. The first
//   one is the first in execution order. The others follow in descending order
//   of their errors.
// - An op on another rank than that of the first cause must be independent
//   (Failure::is_independent) or the same op. On ranks whose order is unknown,
//   this applies to all causes.
//
// If the order of execution of the golden run is unknown (HasKnownOrder), each
// row that fails at that token can be the first divergence. The first ones by
// sequence number are shown as concurrent, without a cause.
//
// Thread-compatible.
class Findings {
 public:
  // Declares that sequence numbers are not the order of execution. `run` is the
  // name of the golden run. Must be called before any row is added.
  void SetOrderUnknown(std::string run) { unordered_run_ = std::move(run); }

  // Adds the next row. `bytes` is the complete serialized row.
  // `has_equal_values`: none of the compared elements differs.
  void AddRow(const v1::ComparisonRow& row, const std::string& bytes,
              bool has_equal_values);

  // Returns whether SetMaker should be called for the rank and token of `row`,
  // which must have been added.
  bool WantsMaker(const v1::ComparisonRow& row) const;
  // Returns whether SetMaker has been called for them, so that AddMaker can be
  // called.
  bool WantsFurtherMaker(const v1::ComparisonRow& row) const;

  // The cause of a failure, with its row. `position` is the position of that
  // row among the pairs of its group, `failed` that of the first row that
  // fails.
  struct Failure {
    v1::Maker maker;
    int32_t position = 0;
    int32_t failed = 0;
    // See FoundMaker.
    bool is_independent = false;
  };
  // Sets the cause of the first failing row of a rank.
  void SetMaker(const v1::ComparisonRow& row, Failure failure);
  // Adds a cause that does not follow from the other causes of its rank.
  void AddMaker(const v1::ComparisonRow& row, Failure failure);

  // Returns whether no earlier row was passed to SetInputDifference.
  bool IsFirstInputDifference(const v1::ComparisonRow& row) const;
  // Records that the model receives different integers from the token of `row`
  // on. `description` has all fields except the row.
  void SetInputDifference(const v1::ComparisonRow& row,
                          const std::string& bytes,
                          const v1::InputDifference& description);

  // Returns whether several ranks fail at the first token with a failure, and
  // their order is unknown.
  bool WantsOrder() const;
  // Returns the first token with a failure. Some row must have failed.
  int64_t token() const { return token_; }
  // Returns the ranks that fail at that token, in ascending order.
  std::vector<int32_t> FailingRanks() const;
  // Orders the failing ranks and their causes. Calls `stop` between its steps.
  //
  // Errors: those of `stop`.
  using Stop = std::function<absl::Status()>;
  absl::Status SetOrder(const RankOrder& order, const Stop& stop);

  // Returns whether anything has changed since the last Show.
  bool changed() const { return changed_; }
  // Replaces the findings in `comparison`.
  void Show(v1::Comparison& comparison) const;

 private:
  // The first failing row of a rank, and its causes.
  struct Candidate {
    v1::ComparisonRow row;
    // The cause of the row, then further ones.
    std::vector<Failure> failures;
    // The places of all known causes, including those that are not kept.
    std::set<std::string> places;
  };
  // Identifies a cause of a rank.
  struct MakerNumber {
    int32_t rank = 0;
    size_t failure = 0;

    friend bool operator==(const MakerNumber&, const MakerNumber&) = default;
  };
  // The divergences, as ranks, and the causes that are after no other one. In
  // both lists, the first entry is followed by those that are concurrent with
  // it.
  struct Ranking {
    std::vector<int32_t> divergences;
    std::vector<MakerNumber> makers;
  };

  // Replaces `first` if `row` is before it.
  void Offer(const v1::ComparisonRow& row, const std::string& bytes,
             std::optional<v1::ComparisonRow>& first);
  static Ranking BySequence(const std::map<int32_t, Candidate>& candidates);
  static const Failure& FailureOf(
      const std::map<int32_t, Candidate>& candidates,
      const MakerNumber& number);
  // Returns the first known cause of a rank in execution order. If none is
  // known, returns the first one.
  static size_t LeadOf(const Candidate& candidate);
  // Sorts the entries from `begin` on. Known causes are first, then those with
  // larger errors.
  static void SortMakers(const std::map<int32_t, Candidate>& candidates,
                         size_t begin, std::vector<MakerNumber>& makers);
  // Returns the causes to order: the first one of each rank, and the worst of
  // all others.
  std::vector<MakerNumber> MakersToPair() const;
  static void Keep(Failure failure, Candidate& candidate);
  const Candidate* Find(const v1::ComparisonRow& row) const;
  bool HasMaker() const;
  bool IsOfLaterToken() const { return !later_.empty() && !HasMaker(); }
  void AddAmong(const v1::ComparisonRow& row, const std::string& bytes);
  void ShowAmong(v1::Comparison& comparison) const;
  absl::StatusOr<std::vector<int32_t>> FirstDivergences(const RankOrder& order,
                                                        const Stop& stop) const;
  absl::StatusOr<std::vector<MakerNumber>> FirstMakers(const RankOrder& order,
                                                       const Stop& stop) const;
  void ShowMakers(v1::Comparison& comparison) const;

  int64_t token_ = 0;
  // Name of the golden run if its order of execution is unknown. `among_` then
  // contains the first rows by sequence number that fail at `token_`, at most
  // kConcurrentMax + 1.
  std::optional<std::string> unordered_run_;
  std::vector<v1::ComparisonRow> among_;
  std::map<int32_t, Candidate> candidates_;
  // The first later token with a cause, and the ranks that fail there.
  int64_t later_token_ = 0;
  std::map<int32_t, Candidate> later_;
  // Number of candidates when `ranking_` was made.
  size_t ordered_count_ = 0;
  std::optional<Ranking> ranking_;
  std::optional<v1::ComparisonRow> inequality_;
  std::optional<v1::ComparisonRow> non_finite_;
  std::optional<v1::ComparisonRow> both_non_finite_;
  std::optional<v1::ComparisonRow> unmatched_;
  std::optional<v1::ComparisonRow> skipped_;
  std::optional<v1::ComparisonRow> not_compared_;
  std::optional<v1::InputDifference> input_difference_;
  mutable bool changed_ = false;
};

}  // namespace msitd::compare
