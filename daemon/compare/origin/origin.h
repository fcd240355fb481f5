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
#include "daemon/compare/origin/call_differences.h"
#include "daemon/compare/origin/call_tree.h"
#include "daemon/compare/origin/pair_facts.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// An error begins at a tensor if it is at least this many times the error of
// the tensor's sources. A smaller one is passed on from them.
inline constexpr double kAmplificationMax = 8;

// Maximum number of ops with wrong weights that are kept for later tokens, over
// all ranks.
inline constexpr size_t kWrongWeightsMax = 4096;

// The number of ops whose state may follow from a flip at an earlier token, of
// all ranks. State of further ops does not.
inline constexpr size_t kPastFlippedOpsMax = 65'536;

// The number of tensors of a rank that follow from a flip and that the next
// token may begin with.
inline constexpr size_t kPastFlippedTensorsMax = 64;

// The cause of the difference of a row.
struct FoundMaker {
  // The cause, without its row.
  v1::Maker maker;
  // The pair of the group whose row is that of the cause.
  size_t pair = 0;
  // A pair of the call in which the difference began; -1 if there is none. If
  // arguments of that call that are not tensors differ, `caller` may be the
  // cause.
  int32_t call_pair = -1;
  // The caller of that call as a cause, without its row.
  v1::Maker caller;
  // The verdict of `pair`.
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  // True if the cause is a weight, or an op whose inputs are all equal in both
  // runs. It then does not follow from another cause.
  bool is_independent = false;
};

// Finds the cause of a failing row: the tensor at which its difference began.
// The protocol and the code call the cause the maker.
//
// One fault makes most of the tensors after it fail, so most failing rows do
// not show where it is. Even the first one need not show it, because an error
// can begin below the tolerance and then grow. This class therefore compares
// each error with the errors of the tensor's sources, which are the tensors
// that it was computed from. From a failing tensor, it goes to the source with
// the largest error, then to the largest source of that one, and so on. The
// cause is where an error is much larger than that of its sources
// (kAmplificationMax). This works below the tolerance, but it requires the
// order of execution and the errors of all tensors. Everything between two
// recorded tensors is one cause.
//
// The sources of a tensor (see CallTree):
//
// - If an earlier tensor has the same bytes in both runs, it is the source.
// - The sources of an output of an op without parts are the inputs and weights
//   of the op. If these have several counterparts, those of the same target
//   call are used, if there are any.
// - The sources of an output of a call without parts and without recorded
//   inputs are the tensors before it.
// - The sources of an output of an op with parts, and of an input of one of its
//   parts, are all tensors that the code of the op has received by then: the
//   inputs of the op, and the outputs of its parts.
//
// Further rules:
//
// - If an op seems to be the cause and only one run passes some input to it,
//   the code that calls the op is the cause.
// - An error that is no larger than the rounding of the types that the failing
//   tensor went through is noise, which has no cause.
// - Integers are right or wrong, so their errors are infinite. A choice that
//   its scores explain (SetChoice) is not a cause. If the scores fail, it
//   follows from them. If they pass, it is a flip, which has no cause. The same
//   applies to rows that code selects by nearly equal scores.
// - If a tensor has sources that follow from a flip and others that differ, its
//   cause is unknown.
// - Code that has received a tensor that follows from a flip may choose
//   differently as well, so what it makes also follows from the flip. So does
//   what code makes from its state, such as a cache, if a flip has reached this
//   code at an earlier token of the rank. If code outside of all calls begins a
//   token with a tensor that has the bytes of one that follows from a flip at
//   the token before, it is the same tensor.
// - Calls that only one run makes follow from a flip if the code around them
//   has flipped or has received a tensor that follows from a flip. An expert
//   that only one run has selected is such a call. The tensors inside it have
//   no counterparts, or unrelated ones.
// - If a choice differs although its sources differ only within the noise, its
//   cause is unknown, unless its scores prove that it is wrong.
//
// A further cause of a rank does not follow from its other causes, as far as
// hooks can show. It is a weight or state that differs itself, or an op without
// parts whose recorded inputs, at least one, and weights are equal bit for bit
// in both runs. The backward pass has no further causes.
//
// Thread-compatible. Holds two numbers for each tensor of a group, and about
// 150 bytes after one of them has failed.
class OriginFinder {
 public:
  // Declares that the tensors of the golden run are not in execution order
  // (HasKnownOrder). Rows then have no origin, no amplification and no cause.
  void SetOrderUnknown() { has_order_ = false; }

  // Starts a group. The rows of `pairs` follow in this order. `pairs` must
  // exist until the group ends. `may_lack_inputs`: tensors that only one run
  // has may have been lost in the other run, or may not have arrived yet.
  void StartGroup(const std::vector<TensorPair>& pairs, bool may_lack_inputs);

  // Sets whether both runs have the same number of ranks. If they do, tensors
  // with different shapes are wrong. Otherwise one can be a piece of the other.
  void SetShapesCount(bool shapes_count) { shapes_count_ = shapes_count; }

  // Adds the row of the next pair. The row must have its verdict; `computed_in`
  // is that of the pair's Basis. If the row fails and was read, sets its origin
  // and its amplification. The amplification remains absent if a source was not
  // read.
  void Judge(const RowMetrics& metrics, DType computed_in,
             v1::ComparisonRow& row);

  // Skips the next pair, which has no row yet.
  void PassOver();

  // Returns the cause of the last row. Returns nullopt if the row does not fail
  // or its error is unknown, for example because only the shapes differ.
  std::optional<FoundMaker> Maker();

  // Returns the cause of the last row if it is a further cause that neither
  // Maker nor FurtherMaker has returned for this group. Otherwise returns
  // nullopt.
  std::optional<FoundMaker> FurtherMaker();

  // Returns the pairs of both runs from which the tensor of an earlier pair was
  // computed, at most `count`, the latest first. For an output of an op without
  // parts: the inputs and weights of its call. For other inputs and outputs:
  // the inputs of the call whose code computed the tensor, and the outputs of
  // its parts. Empty for weights, and if the order is unknown.
  std::vector<size_t> SourcesOf(size_t pair, size_t count) const;
  // Returns Basis::computed_in of a pair whose row was added.
  DType ComputedIn(size_t pair) const;

  // Returns earlier pairs that may contain the scores by which the integers of
  // the next pair were chosen, the most likely first. If tensors of the same
  // call qualify, returns only these.
  std::vector<size_t> ScoresOfNext();

  // A pair with a tensor from which the rows of another one may have been
  // selected, and a pair with the possible scores of these rows.
  struct Selection {
    size_t from = 0;
    size_t scores = 0;
  };
  // Returns the possible selections of the next pair if it is the input of a
  // part, such as an expert that a router selects. Otherwise returns an empty
  // vector.
  std::vector<Selection> SelectionsOfNext();

  // Sets the result for the next pair if its integers or rows differ and were
  // chosen by the scores of the pair `scores`. Must be called before Judge.
  enum class Choice : uint8_t {
    kNotKnown,
    kExplained,    // Each run chose by its own scores.
    kUnexplained,  // The scores do not explain the difference.
    kSelection,    // Rows, where the scores are nearly equal.
  };
  // `is_flip` is false if it is not certain that the scores explain it.
  void SetChoice(Choice choice, size_t scores, bool is_flip = true);

  // Returns a flip that has the same bytes as the next pair in both runs;
  // nullopt if there is none.
  std::optional<size_t> FlipOfNext() const;
  // Returns the flip because of which only one run has the last pair, in the
  // form of FlipOfLast; nullopt if there is none.
  std::optional<std::string> FlipOfLone();
  // Returns the flip that the last row follows from, such as
  // `model.gate output/0`. The row must have the origin FLIPPED.
  std::string FlipOfLast();
  // Declares that the next pair is a copy of a flip that FlipOfNext has
  // returned.
  void SetFollowsFromFlip();

  // Returns whether the last row has a difference that no choice explains: new
  // NaN, copies that differ, or a choice that its scores do not explain.
  bool IsProvenFault() const {
    return !is_proven_.empty() && is_proven_.back();
  }

  // Declares that all pairs of the group were judged. If the group is whole,
  // its flips may have changed the state of the code that they have reached.
  void EndGroup(bool is_whole);

  // Returns whether the row of the pair passes.
  bool HasPassed(size_t pair) const { return verdicts_[pair] == v1::PASS; }
  // Returns the error of the pair; NaN if it is not known.
  double MeasuredErrorOf(size_t pair) const { return errors_[pair]; }

  // Returns whether a pair, at most the next one, is an input of the model
  // itself.
  bool IsModelInput(size_t pair);

 private:
  // The source of a tensor with the largest error, and properties of all of its
  // sources.
  struct Source {
    // The source with the largest error; kNone if no error is known.
    int32_t event = CallTree::kNone;
    double error = 0;
    // True if the error of some source is unknown, because it was not compared
    // or because it was not read (`is_unread`).
    bool is_unknown = false;
    bool is_unread = false;
    // True if some source differs and does not follow from a flip.
    bool has_others = false;
  };
  // The tensors with the largest errors that the code of a call has received so
  // far.
  struct Scope {
    int32_t worst = CallTree::kNone;
    bool has_unknown = false;
    // Some of them is an input of the call itself and not known.
    bool has_unknown_input = false;
    bool has_unread = false;
    int32_t worst_weight = CallTree::kNone;
    // True if some tensor fails. `has_others`: some tensor fails or has a
    // cause, and does not follow from a flip.
    bool has_failed = false;
    bool has_others = false;
  };
  // The values of SetChoice for a pair.
  struct KnownChoice {
    Choice choice = Choice::kNotKnown;
    int32_t scores = CallTree::kNone;
    bool is_flip = false;
  };

  // Results of MakerOf in place of an event: no cause, an unknown one, and a
  // flip at an earlier token.
  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kNotKnown = -2;
  static constexpr int32_t kPastFlip = -3;

  // Fills `flipped_ops_`.
  void FindFlippedOps();
  // Makes the tree of the group if it does not exist yet.
  void PlantTree();
  // Finds the sources of all events up to the last row.
  void Advance();
  // Records the first differences after which weights and states may have
  // changed.
  void NoteChanges(int32_t event);
  bool HasCopiesThatDiffer(int32_t event) const;
  bool HasFloatInput(int32_t event) const;
  bool IsUndecidedChoice(int32_t event) const;
  bool MayBeFurther(int32_t event);
  bool IsNewWeight(int32_t event);
  bool IsOfEqualInputs(int32_t event) const;
  // FindOddOps must have been called.
  bool HasPartsByName(std::string_view op) const;
  void FindOddOps();
  // Returns whether a result of MakerOf is a flip.
  bool IsFlip(int32_t maker) const;
  // Returns whether code made the tensor, and not an op without parts.
  bool IsMadeByCode(int32_t event) const;
  // Returns the flip that the code that made `event` may have chosen by;
  // nullopt if there is none. `makers` are those of earlier events.
  std::optional<int32_t> FlipBehind(int32_t event,
                                    const std::vector<int32_t>& makers) const;
  // Returns whether code outside of all calls passes `event` on from the token
  // before, where it follows from a flip.
  bool HasBytesOfPastFlip(int32_t event) const;
  // Returns the flip that the code of `call` has made, or that a tensor which
  // it has received so far follows from; kNobody if there is none.
  int32_t FlipIn(int32_t call);
  // Returns FlipIn for the code around the call that contains `event` and that
  // only the golden run makes; kNobody if both runs make all of these calls.
  int32_t FlipAroundLone(int32_t event);
  std::string NameOf(int32_t maker) const;
  // Describes the cause of `event`. `maker` is a result of MakerOf.
  FoundMaker Describe(int32_t event, int32_t maker);
  // See v1.ComparisonRow.roundings.
  std::optional<double> RoundingsOf(int32_t event) const;
  Source SourceOf(int32_t event);
  Source Worst(std::initializer_list<int32_t> events, bool is_unknown,
               bool is_unread) const;
  void AddToScopes(int32_t event);
  // Returns a key for the golden and the target call of `event`.
  std::string CopyOf(int32_t event) const;
  // Returns what the call with the output `event` has received. If its tensors
  // have several counterparts, those of the same target call count.
  Scope GivenTo(int32_t event);
  // Returns what the code of `call` has received: `own` and, for a backward,
  // the tensors of its forward pass.
  Scope WithForward(int32_t call, Scope own);
  // Returns the event that is the cause of `event`, or kNobody or kNotKnown.
  // Errors up to `noise` count as rounding.
  int32_t MakerOf(int32_t event, double noise);
  // Returns whether the error of `event` begins there.
  bool IsMade(int32_t event, double noise) const;
  Scope& ScopeOf(int32_t call) { return scopes_[call + 1]; }
  v1::Origin OriginOf(int32_t event, int32_t maker) const;
  bool IsDrift(int32_t event, int32_t maker) const;
  void DescribeMade(int32_t event, v1::Maker& maker) const;
  // Describes the code of `scope` before `event`, or before its part `before`,
  // as the cause. Returns the part that was called last.
  int32_t DescribeCode(int32_t scope, int32_t event, int32_t before,
                       v1::Maker& maker) const;
  // Describes the code that calls `call` as the cause.
  void DescribeCaller(int32_t call, v1::Maker& maker) const;
  // Sets the call of the cause `event`, whose arguments are to be compared.
  void AddCall(int32_t event, FoundMaker& found) const;
  std::string LoneInputsOf(int32_t call) const;
  bool IsLoneInput(int32_t event) const;
  void DescribeDrift(int32_t event, v1::Maker& maker) const;
  std::string NotesOf(int32_t event, int32_t scope, int32_t after) const;
  // Adds the notes of CallDifferences.
  void AddCallNotes(int32_t event, int32_t scope, int32_t after,
                    std::vector<std::string>& notes) const;
  std::string WhyNotKnown(int32_t event) const;
  // Returns the largest error of the last row that counts as noise.
  double Noise() const;

  bool has_order_ = true;
  bool shapes_count_ = false;
  bool may_lack_inputs_ = false;
  const std::vector<TensorPair>* pairs_ = nullptr;
  // These have an entry for each pair so far.
  std::vector<double> errors_;
  std::vector<v1::Verdict> verdicts_;
  std::vector<bool> is_unread_;     // Not read, and without a known error.
  std::vector<bool> is_lone_;       // Only the golden run has it.
  std::vector<bool> is_proven_;     // See IsProvenFault.
  std::vector<DType> computed_in_;  // See Basis::computed_in.
  std::optional<CallTree> tree_;
  mutable std::optional<CallDifferences> call_differences_;
  std::vector<Source> sources_;
  std::vector<Scope> scopes_;
  // True if some golden tensor has several counterparts.
  bool has_copies_ = false;
  // The inputs and weights of target calls, by CopyOf. Empty unless
  // has_copies_.
  std::unordered_map<std::string, Scope> copies_;
  // The causes of the events so far, by the noise for which they were found.
  std::map<double, std::vector<int32_t>> makers_;
  // Errors of the weights that differ, by rank and op. Includes earlier tokens.
  std::map<std::pair<int32_t, std::string>, double> wrong_weights_;
  std::vector<double> noises_;              // By pair, so far.
  std::map<int32_t, KnownChoice> choices_;  // By pair.
  std::vector<int32_t> flips_;              // The pairs that are flips.
  // The last flip in the code of each call.
  std::map<int32_t, int32_t> flip_scopes_;
  std::vector<int32_t> lone_flips_;  // By event so far: FlipAroundLone.
  // Ops whose code has flipped or has received what follows from a flip. Filled
  // at the first tensor that only the target has.
  std::optional<std::map<std::string_view, int32_t>> flipped_ops_;
  std::set<std::string_view> golden_ops_;  // Filled together with it.
  std::string first_flip_;                 // The name of the first one.
  // The flips of earlier tokens, by rank.
  struct PastFlips {
    std::string first;
    // The ops whose code they have reached, and whose state they may have
    // changed.
    std::set<std::string, std::less<>> ops;
    // Tensors of the last token that follow from them. The next token may
    // begin with them.
    std::set<PairHashes> hashes;
  };
  std::map<int32_t, PastFlips> past_flips_;
  size_t past_op_count_ = 0;  // The total of all ranks.
  // The first events that differ in the backward pass, and in any op.
  int32_t first_backward_ = CallTree::kNone;
  int32_t first_different_ = CallTree::kNone;
  // Set by FindOddOps: ops with tensors that only one run has, and ops with
  // weights or states that are not equal bit for bit.
  bool has_odd_ops_ = false;
  std::set<std::string_view> lone_ops_;
  std::set<std::string_view> other_weights_;
  // Names of ops that have parts according to the names of other ops. In files
  // of other tools, the tensors of a part can precede those of its op, so the
  // calls do not show it.
  std::set<std::string_view> wholes_;
  std::set<std::string_view> typed_wholes_;  // Without the type at the end.
  // The hashes of weights that have been returned as causes. Tied weights count
  // once.
  std::set<std::pair<std::string, std::string>> weights_returned_;
  std::set<int32_t> returned_;   // Events that were returned as causes.
  std::optional<int32_t> rank_;  // The rank of the group.
  bool is_above_noise_ = false;  // Some error of the group exceeds the noise.
  // Ranks that had an error above the noise at an earlier token.
  std::set<int32_t> past_;
};

}  // namespace msitd::compare
