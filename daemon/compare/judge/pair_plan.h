// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/view/any_order.h"

namespace msitd::compare {

struct StatedTolerance;

// See v1.Comparison.Reading.
enum class Reading : uint8_t { kBytes, kUnproven, kSamples };

// For each group, this many pairs are read although they are known to fail.
inline constexpr int kProvenReadMax = 4;

// How one pair is decided. Determined once, before the pair is queued for
// measuring, so that the threads that queue it and judge it always agree.
struct PairPlan {
  enum class Way : uint8_t {
    kLater,        // More tensors of the group may arrive.
    kStated,       // The golden run states that the tensor is not judged.
    kAlone,        // Only one run has the tensor.
    kShardsAmiss,  // The shards of a side do not form one tensor.
    kViewUnfit,    // The view of a side does not fit.
    kValues,       // Texts, or records of different kinds.
    kStatistics,   // At least one side is statistics.
    kShapes,       // The shapes differ.
    kKinds,        // Only one side is complex.
    kOrderUnfit,   // The rows of the pair cannot be compared in any order.
    // The hashes are equal but the summaries are not: a rank reported one of
    // them wrongly.
    kContradiction,
    kEqualHashes,  // The hashes are equal.
    kNoElements,
    kBytes,        // Both sides have bytes.
    kSamples,      // Only samples of both sides are compared.
    kOtherHashes,  // Only equal bytes pass; hashes or types differ.
    kSummaries,    // Summaries prove a failure, or nothing is decided.
  };

  Way way = Way::kLater;
  // The requirement of the policy. Set only for kEqualHashes and the ways after
  // it, except kNoElements. For kStatistics, JudgeStatistics queries the
  // policy.
  Verification verification = {};
  PairBasis basis = {};
  // True if the bytes would also decide the pair, but are not read.
  bool is_unread = false;
  // Set if the rows of the pair may be in any order and must be read.
  std::optional<AnyOrder> any_order = {};
  // The statement of the golden run on the tensor; null if it does not affect
  // the plan. Owns the predicate of `verification`.
  std::shared_ptr<const StatedTolerance> stated = nullptr;

  // True if the bytes or samples must be read.
  bool is_measured() const { return way == Way::kBytes || is_sampled(); }
  bool is_sampled() const { return way == Way::kSamples; }
};

// Plans the pairs of one group, in order. Reading bytes dominates the time of a
// comparison. Pairs with equal hashes are therefore never read, and `reading`
// can exclude other pairs that hashes, summaries or samples decide.
// Thread-compatible.
class PairPlanner {
 public:
  PairPlanner(const Policy& policy, Reading reading)
      : policy_(policy), reading_(reading) {}

  // Returns how to decide the next pair, which must be complete and was
  // computed from `basis`. The policy must outlive the result.
  PairPlan Plan(const TensorPair& pair, const PairBasis& basis);

 private:
  // Plans a pair whose rows may be in any order.
  void PlanInAnyOrder(const TensorPair& pair, PairPlan& plan) const;
  PairPlan::Way WayWithBytes(const TensorPair& pair,
                             const Verification& verification);

  const Policy& policy_;
  const Reading reading_;
  int proven_count_ = 0;  // Pairs so far that count for kProvenReadMax.
};

// Returns whether a rule allows to compare tensors of these shapes. `rule` must
// not be kOfPreset.
bool ShapesAgree(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                 ShapeRule rule);

// Returns the bound of nl2 in the default policy; 0 for types that do not
// round.
double DefaultNl2Bound(const TensorPair& pair, const Basis& basis);

// Returns why a pair of kSummaries is undecided if its summaries prove no
// failure: which data is missing.
std::string WhyUndecided(const TensorPair& pair);

}  // namespace msitd::compare
