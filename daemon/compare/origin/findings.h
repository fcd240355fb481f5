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

namespace msitd::compare {

// Ranks whose first failing row is kept.
inline constexpr size_t kFailingRanksMax = 1024;

// First rows of concurrent ranks that a comparison shows, beside the first.
inline constexpr int kConcurrentMax = 8;

// Makers that a comparison shows.
inline constexpr int kMakersMax = 5;

// Makers beside the first of each rank that are put in order, the worst.
inline constexpr size_t kPairedMax = 64;

// Makers of a rank that are kept whole: the first, and the worst of the others.
// So many are told apart to count them.
inline constexpr size_t kRankMakersMax = 8;
inline constexpr size_t kRankPlacesMax = 4096;

// Ranks that a maker names beside that of its row.
inline constexpr int kAlikeRanksMax = 64;

// True if both sides have a NaN or an infinity, as far as that is known.
bool IsNonFiniteOnBothSides(const v1::ComparisonRow& row);

// True for a row that is skipped because one run may have the tensor alone.
bool IsAllowedUnmatched(const v1::ComparisonRow& row);

// The rows of a comparison that its header shows: the first that fails, and who
// made it; the first that is not finite in the target alone, and on both sides;
// the first that is unmatched, the first that is skipped, and the first that
// could not be compared; and from where on the model is given other integers.
//
// Keeps the first failing row of every rank that fails at the first token at
// which one does, and who made the differences there. Until the order of these
// ranks is known, the smallest sequence counts. If nobody is known to have made
// any of them, as where pieces of tensors fail by their shapes, the makers are
// those of the next token with one.
//
// Makers of different ranks follow from each other as their order has it. Those
// of one rank are independent when they come here. What is at the same place is
// one maker, however many tensors show it. Known makers come before drift and
// the like. The first in execution order comes first, then the worst. An op of
// another rank than the first one's needs a proof (Failure::is_independent),
// unless it is the same; and so does everything of ranks whose order is not
// known.
//
// If the golden run does not know in which order its tensors were computed
// (HasKnownOrder), any failing row of that token may be the first divergence:
// the first ones by sequence are shown as concurrent, and no maker is named.
//
// Thread-compatible.
class Findings {
 public:
  // Sets that sequences are no order of execution, before any row is added.
  // `run` is the name of the golden run.
  void SetOrderUnknown(std::string run) { unordered_run_ = std::move(run); }

  // Takes the next row. `bytes` is the serialised row, with everything in it.
  // `has_equal_values`: as far as it was compared, no element differs.
  void AddRow(const v1::ComparisonRow& row, const std::string& bytes,
              bool has_equal_values);

  // True if SetMaker has not been called for the first failure of the rank and
  // token of `row`, which has been added.
  bool WantsMaker(const v1::ComparisonRow& row) const;
  // True if it has been, so that AddMaker may be.
  bool WantsFurtherMaker(const v1::ComparisonRow& row) const;

  // Who made a failure, with the row of the maker. `position` is the position
  // of that row among the pairs of its group, `failed` that of the first
  // failure.
  struct Failure {
    v1::Maker maker;
    int32_t position = 0;
    int32_t failed = 0;
    // See FoundMaker.
    bool is_independent = false;
  };
  void SetMaker(const v1::ComparisonRow& row, Failure failure);
  // The same for one that does not follow from those so far of its rank.
  void AddMaker(const v1::ComparisonRow& row, Failure failure);

  // Notes that the model is given other integers from the token of `row` on.
  void SetInputDifference(const v1::ComparisonRow& row,
                          const std::string& bytes, std::string difference);

  // True if several ranks fail at a token, and their order is not known.
  bool WantsOrder() const;
  // The first token at which a rank fails; only if one does.
  int64_t token() const { return token_; }
  // The ranks that fail there, ascending.
  std::vector<int32_t> FailingRanks() const;
  // Asks `stop` between its steps.
  //
  // Errors: that of `stop`.
  using Stop = std::function<absl::Status()>;
  absl::Status SetOrder(const RankOrder& order, const Stop& stop);

  // True if something has changed since the last Show.
  bool changed() const { return changed_; }
  // Replaces the fields.
  void Show(v1::Comparison& comparison) const;

 private:
  struct Candidate {
    v1::ComparisonRow row;
    // The first, then others.
    std::vector<Failure> failures;
    // Where the known ones are, also those that are not kept.
    std::set<std::string> places;
  };
  // One of the failures of a rank.
  struct MakerNumber {
    int32_t rank = 0;
    size_t failure = 0;

    friend bool operator==(const MakerNumber&, const MakerNumber&) = default;
  };
  // Divergences, as ranks, and makers that come after no other: the first one,
  // then those that are concurrent with it.
  struct Ranking {
    std::vector<int32_t> divergences;
    std::vector<MakerNumber> makers;
  };

  void Offer(const v1::ComparisonRow& row, const std::string& bytes,
             std::optional<v1::ComparisonRow>& first);
  static Ranking BySequence(const std::map<int32_t, Candidate>& candidates);
  static const Failure& FailureOf(
      const std::map<int32_t, Candidate>& candidates,
      const MakerNumber& number);
  // The first of a rank in execution order, if one is known.
  static size_t LeadOf(const Candidate& candidate);
  // Sorts all from `begin` on, the worst first.
  static void SortMakers(const std::map<int32_t, Candidate>& candidates,
                         size_t begin, std::vector<MakerNumber>& makers);
  // The first of each rank, and the worst of the others.
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
  // Name of the golden run if its order is not known. Then `among_` has the
  // first rows by sequence of those that fail at `token_`, kConcurrentMax + 1
  // at most.
  std::optional<std::string> unordered_run_;
  std::vector<v1::ComparisonRow> among_;
  std::map<int32_t, Candidate> candidates_;
  // The same of a later token, the first with a maker.
  int64_t later_token_ = 0;
  std::map<int32_t, Candidate> later_;
  // The number of candidates that `ranking_` was made of.
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
