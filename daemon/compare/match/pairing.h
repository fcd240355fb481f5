// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// How calls of an op are paired that one run makes more often than the other.
enum class CallPairing : uint8_t {
  // By their numbers, because the order of a run is not known or some of its
  // tensors are not loaded.
  kByNumber,
  // Calls of torch functions are paired by CallAlignment, others by number.
  kFunctionsByPlace,
  // By CallAlignment.
  kByPlace,
};

// The tensors of both runs at one rank and token, each side in the order of
// execution. Borrows them.
struct PairingSides {
  std::span<const LogicalTensor> golden;
  std::span<const LogicalTensor> target;
  // Tensors of ranks belong to those of the same device only.
  bool with_device = false;
  CallPairing calls = CallPairing::kByNumber;
};

// True for tensors of backward calls.
constexpr bool IsOfBackwardCall(Io io) {
  return io == Io::kGradInput || io == Io::kGradOutput;
}

// What holds a pair together, or leaves one alone.
struct Bond {
  // Why; empty if it follows from the names. Lives as long as the pairs.
  std::string_view reason = {};
  // The number of the pair of TensorMapping that says so.
  std::optional<uint32_t> mapped_pair = {};
};

// Which golden tensor belongs to which target tensors, by their numbers in
// PairingSides, and why; and why others belong to none. A target tensor has one
// partner at most, a golden one may have several. Thread-compatible.
class Partners {
 public:
  explicit Partners(const PairingSides& sides);

  // True while nobody has a partner.
  bool is_empty() const { return is_empty_; }

  // The first partner of a golden tensor, in the order of Join, and the one
  // that its golden tensor has behind a target one.
  std::optional<size_t> TargetOf(size_t golden) const;
  std::optional<size_t> NextTarget(size_t target) const;
  bool IsTaken(size_t target) const { return targets_[target].is_taken; }
  // Of a target tensor that is taken.
  const Bond& BondOf(size_t target) const { return targets_[target].bond; }

  // The target tensor has no partner yet.
  void Join(size_t golden, size_t target, const Bond& bond);

  // Leaves a tensor that has no partner without one, and says why, which is not
  // empty. If a pair of TensorMapping says so, it is as it should be.
  void LeaveGolden(size_t golden, const Bond& why);
  void LeaveTarget(size_t target, const Bond& why);

  // False for what has a partner or was left without.
  bool IsGoldenFree(size_t golden) const;
  bool IsTargetFree(size_t target) const;

  // Why a tensor was left without a partner; empty if it was not.
  const Bond& WhyGoldenIsLeft(size_t golden) const;
  const Bond& WhyTargetIsLeft(size_t target) const;

 private:
  struct Golden {
    std::optional<size_t> first;
    size_t last = 0;  // If there is a first.
    Bond why_left;
  };
  struct Target {
    bool is_taken = false;
    std::optional<size_t> next;
    Bond bond;
    Bond why_left;
  };

  bool is_empty_ = true;
  std::vector<Golden> goldens_;
  std::vector<Target> targets_;
};

// One way to tell which tensors belong together. Immutable, hence thread-safe.
class Pairing {
 public:
  virtual ~Pairing() = default;

  // Joins what belongs together: target tensors that are free, to golden ones
  // that are, or, if the pairing says so, to any. Takes time in proportion to
  // the number of tensors.
  virtual void Pair(const PairingSides& sides, Partners& partners) const = 0;
};

// Returns the pairings that `rules` ask for, in the order in which they are
// to be applied: by the mapping, by name, and those for what is left over. They
// borrow it. If it asks for a mapping, it has it.
std::vector<std::unique_ptr<const Pairing>> PairingsOf(const MatchRules& rules);

}  // namespace msitd::compare
