// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/origin/bases.h"

namespace msitd::compare {

// See v1.Comparison.Reading.
enum class Reading : uint8_t { kBytes, kUnproven, kSamples };

// Pairs of a group that are read although they are proven to fail: the first.
inline constexpr int kProvenReadMax = 4;

// What decides a pair. Found out once, before it is queued, so that who queues
// it and who judges it cannot disagree.
struct PairPlan {
  enum class Way : uint8_t {
    kLater,        // More of it may come.
    kAlone,        // One run has it alone.
    kShardsAmiss,  // The shards of a side are not one tensor.
    kValues,       // Of a text, or of different kinds.
    kStatistics,   // Of at least one side.
    kShapes,       // They do not agree.
    kKinds,        // Complex against real.
    // Hashes are equal and summaries are not: a rank claims what is not true.
    kContradiction,
    kEqualHashes,  // So the bytes are equal.
    kNoElements,
    kBytes,        // Both sides have them.
    kSamples,      // Of a side that has no bytes, beside such or bytes.
    kOtherHashes,  // The policy asks for equal bytes, and they are not.
    kSummaries,    // They prove a failure, or nothing is decided.
  };

  Way way = Way::kLater;
  // What the policy asks of it; only of the ways from kEqualHashes on. Of
  // kStatistics, JudgeStatistics asks.
  Verification verification = {};
  PairBasis basis = {};
  // Its bytes would decide it as well.
  bool is_unread = false;

  // Its bytes or samples have to be read.
  bool is_measured() const { return way == Way::kBytes || is_sampled(); }
  bool is_sampled() const { return way == Way::kSamples; }
};

// Plans the pairs of one group. Thread-compatible.
class PairPlanner {
 public:
  PairPlanner(const Policy& policy, Reading reading)
      : policy_(policy), reading_(reading) {}

  // Returns how to decide the next pair, which is complete and was computed
  // from `basis`. Lives as long as the policy.
  PairPlan Plan(const TensorPair& pair, const PairBasis& basis);

 private:
  PairPlan::Way WayWithBytes(const TensorPair& pair,
                             const Verification& verification);

  const Policy& policy_;
  const Reading reading_;
  int proven_count_ = 0;  // Pairs so far.
};

// Returns what is missing to decide a pair of kSummaries, if they prove
// nothing.
std::string WhyUndecided(const TensorPair& pair);

}  // namespace msitd::compare
