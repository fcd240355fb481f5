// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/judge/error_shape.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/origin/call_tree.h"
#include "daemon/compare/origin/measured_drift.h"
#include "daemon/compare/origin/pair_facts.h"
#include "daemon/predicate/predicate.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// A tensor that was computed from an explained one may have this many times the
// error of that one.
inline constexpr double kGrowthMax = 4;

// Maximum number of inputs and of outputs with explained errors (kPastInputsMax
// each), and of ops with gradients, that are kept for later tokens, over all
// ranks.
inline constexpr size_t kPastInputsMax = 4096;
inline constexpr size_t kTrainedOpsMax = 65536;

// Maximum number of ops with recorded weights that are known.
inline constexpr size_t kWeighedOpsMax = 65536;

// Larger errors are never explained.
inline constexpr double kExplainedMax = 0.5;

// Rounding errors that an input may have accumulated, in unit roundoffs. A
// larger error of an input has another cause, and explains no more than this.
inline constexpr double kInputRoundingsMax = 4;

// The largest error of a float32 tensor in a later training step may be this
// many times the default bound, if all other bounds hold.
inline constexpr double kSingleErrorMax = 10;

// Explains errors that exceed the default bounds because an op is
// ill-conditioned: its result is much smaller than the numbers that it was
// computed from, so that their rounding errors are large relative to it.
//
// A fixed bound on the error of a result is right for well-conditioned ops
// only. Wider bounds for all ops would hide faults, and the condition numbers
// of arbitrary ops are not known. For a few kinds of ops, the condition number
// follows from recorded summaries: norms of inputs with a large mean, sums and
// matrix products that cancel, and sines and cosines of large angles. The error
// of such an op is explained up to the condition number times the measured
// error of its inputs, which counts as at most kInputRoundingsMax roundings. An
// op whose inputs are equal bit for bit is never explained, except for angles,
// which the op computes from positions.
//
// A tensor that is computed from an explained one may have kGrowthMax times the
// measured error of that tensor, and at most kGrowthMax times the error of the
// ill-conditioned op at which this began. A function that computes a sum has
// the errors of its terms. The code between the parts of a module may use any
// tensor that it received before, and the backward pass of the code what its
// forward pass has received. The gradient of a weight has the errors of both of
// its factors. The input of a part may also have the errors
// that the same input had at earlier tokens of the rank, because modules keep
// results in caches.
//
// In all of these cases, the norm and the mean of the tensor must agree as well
// as those of tensors with independent rounding errors. Where one direction or
// one number dominates the errors of a row or a position, as in a product whose
// sums cancel, there is one independent error per row or position. Tensors that
// are computed from the result of such an op inherit
// these errors: their norm and mean may change by as much again as those of the
// result have. Errors by row sums need not have this form, because
// all of them is predicted.
//
// The condition number of a linear layer whose weights were not recorded is
// unknown. Its errors can show that it is ill-conditioned: see row_sums.h,
// InputOfNext and ExplainBySums. The caller reads the tensors.
//
// In float16 and bfloat16, a tensor may have kDriftGrowthMax times
// the default bounds if its error is at most so many times that of the tensors
// that it was computed from, plus a rounding per run: deep networks accumulate
// rounding errors. For a function that computes a sum or an elementwise
// product, and for the gradient of a weight, the error that its inputs can
// cause is known and may be larger.
//
// In the cases above, except for errors by row sums, a change of the norm and
// the mean by at most half of the default bound is accepted: without other
// errors, it would be within the bound.
//
// An accumulated gradient may differ by a common factor from that of the other
// run, up to the largest error of a gradient: training clips all gradients by
// their common norm.
//
// After an optimizer step, differences in single elements of float32 are
// accepted: optimizers that divide by the size of the gradient turn the
// rounding errors of gradients near zero into whole steps. This requires a
// gradient of an earlier token that differs and passes. It does not apply to an
// op whose inputs and weights are equal bit for bit.
//
// docs/comparison_details.md describes the model with its sources.
//
// Requires the order of execution and recorded inputs; without them nothing is
// explained. Thread-compatible. Holds 16 bytes for each pair of a group, and
// the call tree after a row has failed.
class Conditioning {
 public:
  // Starts a group. `pairs` must exist until the group ends. Only the first
  // window of a group contains everything that its tensors were computed from.
  // In other windows, nothing is explained.
  void StartGroup(const std::vector<TensorPair>& pairs, bool is_first_window);

  // Ends the group. Keeps its explained errors for later tokens if the group is
  // whole.
  void EndGroup(bool is_whole);

  // Adds the next pair. `error` is its nl2, 0 if its bytes are equal, or
  // nullopt if the pair fails or its error is unknown. `revealed` is its
  // MeasuredError, which is larger if the norm of the tensor hides the errors
  // of most rows or channels. `computed_in` is the member of its Basis.
  void Add(std::optional<double> error, std::optional<double> revealed,
           bool fails, DType computed_in);

  // Returns the reason why the next pair passes although it violates `bounds`,
  // the predicate of the default policy; nullopt if there is none. `shape` is
  // that of the error if this is not the whole error of the pair.
  std::optional<std::string> Explain(
      const RowMetrics& metrics, const predicate::Predicate& bounds,
      DType computed_in, std::optional<ErrorShape> shape = std::nullopt);

  // Returns the pair with the only floating-point input of an op that differs,
  // if it passes and the next pair is the output of the op, as that of a linear
  // layer; otherwise nullopt. Also returns nullopt if weights of the op were
  // recorded, or if it is a kind of op whose condition number is known. Must be
  // called after Explain. Also returns nullopt if Explain has returned a
  // reason, unless that is an error that ExplainBySums has explained, because
  // other layers may then have such errors, too, or a product that cancels,
  // whose later tokens may have too few rows for a bound of their own.
  std::optional<size_t> InputOfNext() const;

  // Explains the error of the next pair by the sums of the rows of that input.
  // `rest` are the metrics of its other errors, which are within the bounds or
  // explained. Returns the reason; nullopt if the error is too large.
  std::optional<std::string> ExplainBySums(const RowMetrics& metrics,
                                           const RowMetrics& rest);

  // Explains the whole error of the next pair for a reason that the caller has
  // proved from the elements. Returns the reason; nullopt if the error is too
  // large.
  std::optional<std::string> ExplainRoot(const RowMetrics& metrics,
                                         std::string reason);

 private:
  // The root of an error that began at an earlier token.
  static constexpr int32_t kPast = -2;

  // The error of a tensor that is explained by an ill-conditioned op, the root;
  // 0 if none explains it.
  struct ExplainedError {
    double error = 0;
    double root_error = 0;           // The error of the root's result.
    int32_t root = CallTree::kNone;  // The event of that result, or kPast.
    double change = 0;               // That of the root's norm or mean.
    bool is_by_sums = false;         // ExplainBySums has explained the root.

    void Merge(const ExplainedError& other) {
      if (other.error > error) *this = other;
    }
    double Bound() const { return kGrowthMax * std::min(error, root_error); }
  };
  // The largest error that the op of a tensor explains, and the reason; 0 if it
  // explains none.
  struct ErrorBound {
    double error = 0;
    double largest = 0;  // Bound of scaled_max_abs.
    double channel = 0;  // Bound of the median channel.
    std::string reason = {};
    // The number of independent errors that the result consists of; 0 if each
    // element may have its own.
    int64_t independent = 0;
  };

  // Extends explained_ to the pairs that have been added.
  void Advance();
  // Returns the largest explained error of the sources of `event`.
  ExplainedError CarriedTo(int32_t event);
  std::string NameOfInput(int32_t event) const;
  // Return what the op of `event` explains, in general and by kind of op.
  // `type` is the coarsest type that `event` went through.
  ErrorBound BoundOf(int32_t event, DType type) const;
  ErrorBound BoundOfNorm(int32_t event, DType type) const;
  // The norms of the terms of a sum, divided by the norm of the result.
  struct Terms {
    std::vector<double> norms;
  };
  Terms TermsOf(int32_t event, const std::vector<int32_t>& inputs) const;
  // Returns the error of a sum that follows from the measured errors of its
  // terms; nullopt if one of them is unknown.
  std::optional<double> ErrorOfTerms(int32_t event) const;
  // Returns the error that a function which computes a sum or an elementwise
  // product, or the gradient of a weight, can have because of the measured
  // errors of its inputs; nullopt for others, or if some error is unknown.
  std::optional<double> PropagatedError(int32_t event) const;
  std::optional<double> ErrorOfFactors(int32_t event) const;
  // Returns the error that the gradient of a weight can have because of the
  // measured errors of the two tensors whose product it is: the gradient of the
  // output and the input of the forward pass.
  std::optional<double> ErrorOfGradient(int32_t event) const;
  ErrorBound BoundOfSum(int32_t event, DType type) const;
  ErrorBound BoundOfProduct(int32_t event, DType type) const;
  ErrorBound BoundOfAngles(int32_t event) const;
  // Returns the float inputs of the call of `event`; nullopt if some input
  // fails or was not measured.
  std::optional<std::vector<int32_t>> FloatInputsOf(int32_t event) const;
  // Returns the unit roundoff of the coarsest of `type` and the types that an
  // input went through.
  double InputRoundoffOf(int32_t input, DType type) const;
  // Returns the error of an input, limited to kInputRoundingsMax roundings.
  double RoundingOf(int32_t input, DType type) const {
    return Limited(errors_[input], input, type);
  }
  double Limited(std::optional<double> error, int32_t input, DType type) const;
  // Returns whether `event` and another output of its call are cosines and
  // sines of the same angles.
  bool IsRotary(int32_t event) const;
  // Returns whether the error of a tensor is only so much larger than the
  // errors of its sources that it can be accumulated rounding.
  bool IsDrift(int32_t event, DType type, const RowMetrics& metrics,
               const predicate::Predicate& bounds) const;
  // Returns what the forward pass has explained to the backward pass of `call`,
  // whose code computes `event`.
  ExplainedError CarriedByForward(int32_t event, int32_t call);
  // Returns whether the pair is a gradient that was accumulated and its error
  // is a common factor plus errors that satisfy `bounds`. Training clips the
  // gradients of all ops by their common norm.
  bool IsClipped(int32_t event, const std::optional<ErrorShape>& shape,
                 const RowMetrics& metrics,
                 const predicate::Predicate& bounds) const;
  // Returns the gradient that the state `event` was accumulated from; kNone if
  // it is other state, or if there is none.
  int32_t GradientOfState(int32_t event) const;
  // Adds an event to given_ and gradient_rows_.
  void AddToGiven(int32_t event);
  // Returns the number of rows over which a gradient of a parameter was summed.
  // For state, this is the gradient that it was computed from. Returns 0 for
  // other tensors, or if the number is not known. A few rows often contribute
  // most of such a sum, and their errors change its norm.
  int64_t RowsOfGradient(int32_t event) const;
  // Returns whether an optimizer step may have changed the sources of `event`.
  bool MayFollowStep(int32_t event) const;
  std::string NameOf(const ExplainedError& error) const;
  ExplainedError& ScopeOf(int32_t call) { return scopes_[call + 1]; }

  const std::vector<TensorPair>* pairs_ = nullptr;
  // By pair, so far. Errors that are multiplied by the norm of their tensor are
  // `errors_`; `revealed_` are those of most rows or channels.
  std::vector<std::optional<double>> errors_;
  std::vector<std::optional<double>> revealed_;
  std::vector<bool> fails_;         // By pair, so far.
  std::vector<DType> computed_in_;  // By pair, so far.
  std::optional<CallTree> tree_;
  std::optional<MeasuredDrift> drift_;     // With the tree.
  std::vector<ExplainedError> explained_;  // By event.
  // The largest explained error among the tensors that the code of each call
  // has received so far. The first entry is for CallTree::kNone.
  std::vector<ExplainedError> scopes_;
  // The last gradient of each op's parameters, and the largest error of all.
  std::map<std::string_view, int32_t> weight_gradients_;
  double largest_gradient_error_ = 0;
  // Facts about the tensors of each call so far.
  struct Given {
    bool differs = false;  // In some tensor.
    bool has_weight = false;
  };
  std::vector<Given> given_;
  // The input of the forward pass of each op; kNone if it has several.
  std::map<std::string_view, int32_t> factors_;
  // The rows of the last gradient that the backward pass of an op has received.
  std::map<std::string_view, int64_t> gradient_rows_;
  std::set<int32_t> sums_;       // Events that ExplainBySums has explained.
  bool may_be_by_sums_ = false;  // See InputOfNext.
  bool may_explain_ = false;
  int32_t rank_ = 0;
  // The largest explained errors of earlier tokens, by rank and input.
  std::map<std::pair<int32_t, std::string>, ExplainedError> past_;
  // The ops with a gradient that differs and passes, by rank.
  std::set<std::pair<int32_t, std::string>> trained_;
  // The ops with recorded weights, of all ranks. If there are more than
  // kWeighedOpsMax, InputOfNext returns nullopt.
  std::set<std::string> weighed_;
  // The explained outputs of earlier tokens by rank and bytes. Later tokens may
  // begin with them.
  std::map<std::pair<int32_t, PairHashes>, ExplainedError> past_bytes_;
};

}  // namespace msitd::compare
