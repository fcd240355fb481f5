// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/origin/rank_order.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// Ranks whose first failing row is kept.
inline constexpr size_t kFailingRanksMax = 1024;

// First rows, or makers, of concurrent ranks that a comparison shows.
inline constexpr int kConcurrentMax = 8;

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
// which one does. Until the order of these ranks is known, the smallest
// sequence counts.
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

  // Who made a failure, with the row of the maker. `position` is the position
  // of that row among the pairs of its group, `failed` that of the first
  // failure.
  struct Failure {
    v1::Maker maker;
    int32_t position = 0;
    int32_t failed = 0;
  };
  void SetMaker(const v1::ComparisonRow& row, Failure failure);

  // Notes that the model is given other integers from the token of `row` on.
  void SetInputDifference(const v1::ComparisonRow& row,
                          const std::string& bytes, std::string difference);

  // True if several ranks fail at a token, and their order is not known.
  bool WantsOrder() const;
  // The first token at which a rank fails; only if one does.
  int64_t token() const { return token_; }
  // The ranks that fail there, ascending.
  std::vector<int32_t> FailingRanks() const;
  void SetOrder(const RankOrder& order);

  // True if something has changed since the last Show.
  bool changed() const { return changed_; }
  // Replaces the fields.
  void Show(v1::Comparison& comparison) const;

 private:
  struct Candidate {
    v1::ComparisonRow row;
    std::optional<Failure> failure;
  };
  // Ranks whose divergence, or maker, comes after no other: the first one, then
  // those that are concurrent with it.
  struct Ranking {
    std::vector<int32_t> divergences;
    std::vector<int32_t> makers;
  };

  void Offer(const v1::ComparisonRow& row, const std::string& bytes,
             std::optional<v1::ComparisonRow>& first);
  Ranking BySequence() const;
  void AddAmong(const v1::ComparisonRow& row, const std::string& bytes);
  void ShowAmong(v1::Comparison& comparison) const;
  std::vector<int32_t> FirstOf(const RankOrder& order, bool of_makers) const;
  bool MakesPartOf(int32_t rank, int32_t other) const;
  void ShowMakers(v1::Comparison& comparison) const;

  int64_t token_ = 0;
  // Name of the golden run if its order is not known. Then `among_` has the
  // first rows by sequence of those that fail at `token_`, kConcurrentMax + 1
  // at most.
  std::optional<std::string> unordered_run_;
  std::vector<v1::ComparisonRow> among_;
  std::map<int32_t, Candidate> candidates_;
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
