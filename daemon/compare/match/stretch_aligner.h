// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// A tensor of a call, with its position in the execution order of its run.
struct CallTensor {
  const LogicalTensor* tensor = nullptr;
  size_t position = 0;

  int32_t call() const { return tensor->key.call; }
};

// One call of an op.
struct OpCall {
  int32_t number = 0;
  std::span<const CallTensor> tensors;
  size_t begin = 0;    // Position of the first tensor.
  size_t stretch = 0;  // Number of landmarks before it; see CallAlignment.
};

// Numbers of two calls that belong together.
struct CallPair {
  int32_t golden = 0;
  int32_t target = 0;
};

// Pairs the calls of an op in one stretch of both runs.
//
// If both runs have equally many calls there, these are paired in execution
// order. Otherwise, one run has calls that the other lacks. All calls of the
// other run are paired, whether or not their shapes fit: a call with a wrong
// shape must fail, and not be left without a counterpart. Among the alignments
// that do so, the one with the most calls with equal bytes of all inputs is
// used, and among several of these the one with the most calls with equal
// shapes of all tensors, then of the inputs, then of the first input. The bytes
// of outputs do not count: a wrong result must be compared with the result that
// it should be, and not with that of another call that happens to be equal.
//
// Thread-compatible.
class StretchAligner {
 public:
  // Stretches with more possible pairs of calls than this are aligned from both
  // ends, as far as calls are alike, and then in order.
  static constexpr size_t kPairsMax = size_t{1} << 16;

  // The calls are in execution order. Appends the pairs to `out`.
  void Align(std::span<const OpCall> golden, std::span<const OpCall> target,
             std::vector<CallPair>& out);

 private:
  // Describes a call by numbers that are equal for calls that are alike; 0 if
  // there is nothing to compare. Only tensors count. Their types and dimensions
  // of size 1 do not, because implementations of a model differ in them.
  struct Likeness {
    uint32_t first = 0;   // Name and shape of the first input.
    uint32_t inputs = 0;  // Names and shapes of all inputs.
    uint32_t all = 0;     // Names and shapes of inputs and outputs.
    uint32_t bytes = 0;   // Types and hashes of all inputs, if all are known.
  };
  struct Limits;

  static uint64_t ScoreOf(const Likeness& golden, const Likeness& target);
  Likeness LikenessOf(const OpCall& call);
  std::vector<Likeness> LikenessesOf(std::span<const OpCall> calls);
  uint32_t NumberOf(std::string text);
  // Calls `join` with the positions of calls at both ends that have at least
  // this score.
  template <typename Join>
  void Trim(Limits& limits, uint64_t least, const Join& join) const;
  // Calls `join` with the positions of the pairs of the best alignment. Among
  // several, uses the one with the earliest pairs.
  template <typename Join>
  void FindBest(const Limits& limits, const Join& join) const;

  std::unordered_map<std::string, uint32_t> numbers_;
  // Likenesses of the calls in the current stretch.
  std::vector<Likeness> golden_;
  std::vector<Likeness> target_;
};

}  // namespace msitd::compare
