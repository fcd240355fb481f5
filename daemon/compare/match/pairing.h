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

// How to pair the calls of an op that one run calls more often than the other.
enum class CallPairing : uint8_t {
  // By number. Used if the execution order of a run is not known or some of its
  // tensors are not loaded.
  kByNumber,
  // Calls of torch functions by CallAlignment, others by number.
  kFunctionsByPlace,
  // All calls by CallAlignment.
  kByPlace,
};

// The tensors of both runs at one rank and token, each side in execution order.
// Borrows them.
struct PairingSides {
  std::span<const LogicalTensor> golden;
  std::span<const LogicalTensor> target;
  // Tensors of ranks are paired only if their devices are equal.
  bool with_device = false;
  CallPairing calls = CallPairing::kByNumber;
};

// Returns whether tensors of this kind belong to backward calls.
constexpr bool IsOfBackwardCall(Io io) {
  return io == Io::kGradInput || io == Io::kGradOutput;
}

// Why two tensors are a pair, or why a tensor has no partner.
struct Bond {
  // Text for the row. Empty if the pair follows from names. Lives as long as
  // the pairs.
  std::string_view reason = {};
  // The number of the responsible pair of TensorMapping, if there is one.
  std::optional<uint32_t> mapped_pair = {};
};

// The pairs of PairingSides, by indexes of tensors, with the reasons for them.
// Also has the reasons why other tensors have no partner. A target tensor has
// at most one partner; a golden tensor may have several.
//
// Thread-compatible.
class Partners {
 public:
  explicit Partners(const PairingSides& sides);

  // Returns whether there are no pairs yet.
  bool is_empty() const { return is_empty_; }

  // Iterate over the partners of a golden tensor in the order of Join. TargetOf
  // returns the first one. NextTarget returns the one after `target`.
  std::optional<size_t> TargetOf(size_t golden) const;
  std::optional<size_t> NextTarget(size_t target) const;
  bool IsTaken(size_t target) const { return targets_[target].is_taken; }
  // `target` must be taken.
  const Bond& BondOf(size_t target) const { return targets_[target].bond; }

  // Adds a pair. `target` must not have a partner yet.
  void Join(size_t golden, size_t target, const Bond& bond);

  // Record that a tensor remains without a partner, and why. `why.reason` must
  // not be empty. If `why` has a mapped pair, the mapping states that the
  // tensor has no counterpart.
  void LeaveGolden(size_t golden, const Bond& why);
  void LeaveTarget(size_t target, const Bond& why);

  // Return whether a tensor has no partner and was not left without one.
  bool IsGoldenFree(size_t golden) const;
  bool IsTargetFree(size_t target) const;

  // Return why a tensor was left without a partner. The result is empty if it
  // was not.
  const Bond& WhyGoldenIsLeft(size_t golden) const;
  const Bond& WhyTargetIsLeft(size_t target) const;

 private:
  struct Golden {
    std::optional<size_t> first;
    size_t last = 0;  // Valid if `first` is present.
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

// A method to find the tensors that belong together.
//
// Equal names are good evidence that two tensors are the same value of a model,
// but names differ between frameworks, wrappers and versions. A score of
// similarity for all tensors would find more pairs. Some of them would be
// wrong, and a wrong pair looks like an error of the target run. Methods are
// therefore applied one after the other, from the most to the least reliable:
// the mapping of the user, names after the user's rules, and similarity only if
// the user requests fuzzy matching. Each method considers only tensors that are
// still free, and records a reason for pairs that do not follow from names. The
// cost is that renamed ops remain unmatched until the user adds a rule.
//
// Immutable, hence thread-safe.
class Pairing {
 public:
  virtual ~Pairing() = default;

  // Joins the free target tensors that belong to a golden tensor. The golden
  // tensor must be free, unless the method allows several targets for it. Takes
  // time proportional to the number of tensors.
  virtual void Pair(const PairingSides& sides, Partners& partners) const = 0;
};

// Returns the methods that `rules` require, in the order in which they must be
// applied: by the mapping, by name, by similarity. They borrow `rules`, which
// must have its mapping if is_mapped.
std::vector<std::unique_ptr<const Pairing>> PairingsOf(const MatchRules& rules);

}  // namespace msitd::compare
