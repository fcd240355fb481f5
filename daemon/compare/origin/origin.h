// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/matcher.h"
#include "daemon/compare/origin/call_tree.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// An error that is so many times that of what a tensor is made of was made
// there; a smaller one came with it.
inline constexpr double kAmplificationMax = 8;

// Names of ops whose weights differ that are kept for later tokens, over all
// ranks.
inline constexpr size_t kWrongWeightsMax = 4096;

// What made the difference of a row.
struct FoundMaker {
  // Without its row.
  v1::Maker maker;
  // The pair of the group whose row is that of the maker.
  size_t pair = 0;
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
};

// Finds out where the difference of a failing tensor was made: it goes back
// from tensor to tensor, each time to the one with the largest error of those
// that it is made of, up to the first whose error is much larger than that.
//
// An output of an op without parts is made of its inputs and weights; that of
// one with parts, and what a part is given, is made by the code of the op out
// of what the op was given and its parts returned so far, or is one of these
// itself (equal bytes on both sides).
//
// An error no larger than the rounding of the type of the failing tensor is
// noise: it was not made, it is there.
//
// Thread-compatible. Holds two numbers for every tensor of a group, and some
// 150 bytes once one fails.
class OriginFinder {
 public:
  // The rows of `pairs` are next. They must live until the group has ended.
  void StartGroup(const std::vector<TensorPair>& pairs);

  // Takes note of the row of the next pair, which has its verdict, and gives it
  // its origin and amplification if it fails.
  void Judge(const RowMetrics& metrics, v1::ComparisonRow& row);

  // The next pair has no row yet.
  void PassOver();

  // Who made the last row, if it fails, and not by its shape alone.
  std::optional<FoundMaker> Maker();

  // True if the last row is what the model itself is given.
  bool IsModelInput();

 private:
  // What a tensor is made of.
  struct Source {
    // The worst of it; kNone if there is nothing, or nothing that is known.
    int32_t event = CallTree::kNone;
    double error = 0;
    // Some of it was not compared.
    bool is_unknown = false;
  };
  // The worst tensor that the code of a call has had in its hands.
  struct Scope {
    int32_t worst = CallTree::kNone;
    bool has_unknown = false;
    int32_t worst_weight = CallTree::kNone;
  };

  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kNotKnown = -2;

  // Finds the sources of the events up to that of the last row.
  void Advance();
  Source SourceOf(int32_t event);
  Source Worst(std::initializer_list<int32_t> events, bool is_unknown) const;
  void AddToScopes(int32_t event);
  // Who made an event, for a failing row of which rounding makes `noise`.
  int32_t MakerOf(int32_t event, double noise);
  bool IsMade(int32_t event, double noise) const;
  Scope& ScopeOf(int32_t call) { return scopes_[call + 1]; }
  v1::Origin OriginOf(int32_t event, int32_t maker) const;
  bool IsDrift(int32_t event, int32_t maker) const;
  void DescribeMade(int32_t event, v1::Maker& maker) const;
  void DescribeDrift(int32_t event, v1::Maker& maker) const;
  std::string NotesOf(int32_t event, int32_t scope, int32_t after) const;
  std::string WhyNotKnown(int32_t event) const;
  double NoiseOf(int32_t event) const;

  const std::vector<TensorPair>* pairs_ = nullptr;
  // Of the pairs so far.
  std::vector<double> errors_;
  std::vector<v1::Verdict> verdicts_;
  std::optional<CallTree> tree_;
  std::vector<Source> sources_;
  std::vector<Scope> scopes_;
  // Makers of the events so far, by the noise that they were found for.
  std::map<double, std::vector<int32_t>> makers_;
  // Errors of weights of earlier tokens, by rank and op.
  std::map<std::pair<int32_t, std::string>, double> wrong_weights_;
};

}  // namespace msitd::compare
