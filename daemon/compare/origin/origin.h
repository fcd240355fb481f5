// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/origin/call_tree.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// An error was made in a tensor if it is at least this many times the error of
// what the tensor is made of; a smaller one came with that.
inline constexpr double kAmplificationMax = 8;

// Ops with wrong weights that are remembered for later tokens, over all ranks.
inline constexpr size_t kWrongWeightsMax = 4096;

// What made the difference of a row.
struct FoundMaker {
  // Without its row.
  v1::Maker maker;
  // The pair of the group whose row is that of the maker.
  size_t pair = 0;
  // A pair of the call whose arguments may have made the difference, and who
  // calls it, as a maker without its row; -1 if there is none.
  int32_t call_pair = -1;
  v1::Maker caller;
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  // It is a weight, or an op that was given equal bytes alone.
  bool is_independent = false;
};

// Finds out where the difference of a failing tensor was made. It walks back
// from the tensor to its source, which is the one with the largest error of all
// that it is made of, then to the source of that, and so on. The first error
// that is much larger than that of its source was made there.
//
// What a tensor is made of:
//  - If it has the same bytes as an earlier one, on both sides: that one.
//  - An output of an op without parts: the inputs and weights of the op. If its
//    tensors have several counterparts, those of the same call of the target,
//    as far as it has any.
//  - An output of a call without inputs on record, and without parts: what came
//    before it.
//  - An output of an op with parts, or an input of one of the parts: all that
//    the code of the op has seen by then, which is what the op was given and
//    what its parts have returned.
//
// If an op seems to have made the difference and only one run gave it some
// input, the code that calls the op made it.
//
// An error no larger than the rounding of the types that the failing tensor
// went through is noise, which nobody made.
//
// Integers are right or wrong, so their errors are infinite. If the scores
// explain a choice (SetChoice), it was not made there: it follows from the
// scores, or it is a flip, which nobody made. What follows from flips and from
// something else that differs is not known. A choice that differs, computed
// from something that differs within the noise, is not known to be a fault
// unless its scores say so.
//
// A further maker is a weight or state that differs by itself, or an op without
// parts whose inputs on record, at least one, and weights are equal bit for bit
// in both runs. Neither follows from another maker of the rank, as far as hooks
// can show. Nothing of the backward pass is one.
//
// Thread-compatible. Holds two numbers for every tensor of a group, and some
// 150 bytes once one fails.
class OriginFinder {
 public:
  // Sets that tensors of the golden run are not in the order of execution
  // (HasKnownOrder): then no row has an origin or an amplification, and nothing
  // has a maker.
  void SetOrderUnknown() { has_order_ = false; }

  // Begins a group: the rows of `pairs` are next. The pairs must live until the
  // group has ended. `may_lack_inputs`: what one run has alone may be lost, or
  // on its way, in the other.
  void StartGroup(const std::vector<TensorPair>& pairs, bool may_lack_inputs);

  // Sets whether both runs have as many ranks: then tensors of other shapes are
  // wrong, and not pieces of one another.
  void SetShapesCount(bool shapes_count) { shapes_count_ = shapes_count; }

  // Takes the row of the next pair, which has its verdict; see
  // Basis::computed_in. Sets the origin and the amplification of a row that
  // fails and was read. There is no amplification behind what was not read.
  void Judge(const RowMetrics& metrics, DType computed_in,
             v1::ComparisonRow& row);

  // Passes over the next pair, which has no row yet.
  void PassOver();

  // Returns who made the difference of the last row, if it fails and its error
  // is known, which it is not if it fails by its shape alone.
  std::optional<FoundMaker> Maker();

  // Returns the same, if it is a further maker that Maker and FurtherMaker have
  // not returned for the group.
  std::optional<FoundMaker> FurtherMaker();

  // Of the next pair, which has integers: earlier pairs that may have the
  // scores by which these were chosen, the likeliest first. Tensors of the same
  // call come before those of the code around it.
  std::vector<size_t> ScoresOfNext();

  // Of the next pair, if code gave it to an op as rows that may have been
  // selected from another tensor, as a router does: pairs with that tensor and
  // with what may be the scores of its rows.
  struct Selection {
    size_t from = 0;
    size_t scores = 0;
  };
  std::vector<Selection> SelectionsOfNext();

  // Sets what was found out about the next pair, which Judge has not seen: its
  // integers, or rows, differ and were chosen by the scores of the pair
  // `scores`.
  enum class Choice : uint8_t {
    kNotKnown,
    kExplained,    // Each run chose by its scores.
    kUnexplained,  // The scores do not explain the difference.
    kSelection,    // Rows, of which it is not known whether they do.
  };
  void SetChoice(Choice choice, size_t scores);

  // Of the next pair: a flip that has the same bytes in both runs.
  std::optional<size_t> FlipOfNext() const;
  // Sets that the next pair is a copy of a flip, as FlipOfNext has it.
  void SetFollowsFromFlip();

  // True if the row of the pair passes.
  bool HasPassed(size_t pair) const { return verdicts_[pair] == v1::PASS; }

  // True if a pair, up to the next one, is what the model itself is given.
  bool IsModelInput(size_t pair);

 private:
  // What a tensor is made of.
  struct Source {
    // The event with the largest error; kNone if no error is known.
    int32_t event = CallTree::kNone;
    double error = 0;
    // Some of it was not compared, or its error is unknown since it was not
    // read.
    bool is_unknown = false;
    bool is_unread = false;
    // Something else of it differs that does not follow from a flip.
    bool has_others = false;
  };
  // The worst tensors that the code of a call has seen so far.
  struct Scope {
    int32_t worst = CallTree::kNone;
    bool has_unknown = false;
    // Some of them is an input of the call itself and not known.
    bool has_unknown_input = false;
    bool has_unread = false;
    int32_t worst_weight = CallTree::kNone;
    // Some of them fails; and some fails, or was made by someone, that does not
    // follow from a flip.
    bool has_failed = false;
    bool has_others = false;
  };
  // What is known of the choice of a pair.
  struct KnownChoice {
    Choice choice = Choice::kNotKnown;
    int32_t scores = CallTree::kNone;
    bool is_flip = false;
  };

  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kNotKnown = -2;

  // Makes the tree of the group, if there is none yet.
  void PlantTree();
  // Finds the sources of the events up to that of the last row.
  void Advance();
  // Notes what may have changed weights and states that come later.
  void NoteChanges(int32_t event);
  bool HasCopiesThatDiffer(int32_t event) const;
  bool HasFloatInput(int32_t event) const;
  bool IsUndecidedChoice(int32_t event) const;
  bool MayBeFurther(int32_t event);
  bool IsNewWeight(int32_t event);
  bool IsOfEqualInputs(int32_t event) const;
  // After FindOddOps.
  bool HasPartsByName(std::string_view op) const;
  void FindOddOps();
  bool IsFlip(int32_t event) const;
  bool IsSelection(int32_t event) const;
  // Describes a maker of the last row, or that nobody made it.
  FoundMaker Describe(int32_t event, int32_t maker);
  // See v1.ComparisonRow.roundings.
  std::optional<double> RoundingsOf(int32_t event) const;
  Source SourceOf(int32_t event);
  Source Worst(std::initializer_list<int32_t> events, bool is_unknown,
               bool is_unread) const;
  void AddToScopes(int32_t event);
  // Names the call of the target that `event` has, in its golden call.
  std::string CopyOf(int32_t event) const;
  // The inputs and weights of an output of a call without parts.
  Scope GivenTo(int32_t event);
  // Returns the event in which the error of `event` was made, or kNobody or
  // kNotKnown. Errors up to `noise` are taken for rounding.
  int32_t MakerOf(int32_t event, double noise);
  bool IsMade(int32_t event, double noise) const;
  Scope& ScopeOf(int32_t call) { return scopes_[call + 1]; }
  v1::Origin OriginOf(int32_t event, int32_t maker) const;
  bool IsDrift(int32_t event, int32_t maker) const;
  void DescribeMade(int32_t event, v1::Maker& maker) const;
  // Describes the code of `scope` up to `event`, or up to its part `before`.
  // Returns the part that was called last.
  int32_t DescribeCode(int32_t scope, int32_t event, int32_t before,
                       v1::Maker& maker) const;
  // Describes the code that calls `call`.
  void DescribeCaller(int32_t call, v1::Maker& maker) const;
  // Sets what is to be asked of the arguments of the call that made `event`.
  void AddCall(int32_t event, FoundMaker& found) const;
  std::string LoneInputsOf(int32_t call) const;
  bool IsLoneInput(int32_t event) const;
  void DescribeDrift(int32_t event, v1::Maker& maker) const;
  std::string NotesOf(int32_t event, int32_t scope, int32_t after) const;
  std::string WhyNotKnown(int32_t event) const;
  // Of the last row.
  double Noise() const;

  bool has_order_ = true;
  bool shapes_count_ = false;
  bool may_lack_inputs_ = false;
  const std::vector<TensorPair>* pairs_ = nullptr;
  // Of the pairs so far.
  std::vector<double> errors_;
  std::vector<v1::Verdict> verdicts_;
  std::vector<bool> is_unread_;     // And the error is not known.
  std::vector<bool> is_lone_;       // The target does not have it.
  std::vector<DType> computed_in_;  // See Basis::computed_in.
  std::optional<CallTree> tree_;
  std::vector<Source> sources_;
  std::vector<Scope> scopes_;
  // Some golden tensor has several counterparts.
  bool has_copies_ = false;
  // What calls of the target were given, by CopyOf; empty without copies.
  std::unordered_map<std::string, Scope> copies_;
  // Makers of the events so far, by the noise that they were found for.
  std::map<double, std::vector<int32_t>> makers_;
  // Errors of weights of earlier tokens, by rank and op.
  std::map<std::pair<int32_t, std::string>, double> wrong_weights_;
  std::vector<double> noises_;              // Of the pairs so far.
  std::map<int32_t, KnownChoice> choices_;  // By pair.
  std::vector<int32_t> flips_;              // Explained choices, by pair.
  // The first events that differ: of the backward pass, and of any op.
  int32_t first_backward_ = CallTree::kNone;
  int32_t first_different_ = CallTree::kNone;
  // Ops of which one run has tensors alone, and ops with weights or states that
  // are not equal bit for bit, once asked for.
  bool has_odd_ops_ = false;
  std::set<std::string_view> lone_ops_;
  std::set<std::string_view> other_weights_;
  // Names of ops that have parts by their names. Files may have the tensors of
  // a part before those of its whole, so that the calls do not show it.
  std::set<std::string_view> wholes_;
  std::set<std::string_view> typed_wholes_;  // Without the type at the end.
  // Of weights that are makers; tied ones count once.
  std::set<std::pair<std::string, std::string>> weights_returned_;
  std::set<int32_t> returned_;   // Makers, as events.
  std::optional<int32_t> rank_;  // Of the group.
  bool is_above_noise_ = false;  // Some pair of the group.
  // Ranks with an error above the noise at an earlier token.
  std::set<int32_t> past_;
};

}  // namespace msitd::compare
