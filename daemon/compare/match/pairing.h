// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// The tensors of both runs at one rank and token, each side in the order of
// execution. Borrows them.
struct PairingSides {
  std::span<const LogicalTensor> golden;
  std::span<const LogicalTensor> target;
  // Tensors of ranks belong to those of the same device only.
  bool with_device = false;
};

// Which golden tensor belongs to which target tensor, by their numbers in
// PairingSides, and why. Thread-compatible.
class Partners {
 public:
  explicit Partners(const PairingSides& sides);

  // True while nobody has a partner.
  bool is_empty() const { return is_empty_; }

  std::optional<size_t> TargetOf(size_t golden) const;
  // Why it belongs to TargetOf: empty if that follows from the names.
  std::string_view ReasonOf(size_t golden) const;
  bool IsTaken(size_t target) const { return taken_[target]; }

  // Neither has a partner yet. `reason` lives as long as the pairs.
  void Join(size_t golden, size_t target, std::string_view reason);

 private:
  // Of a golden tensor.
  struct Partner {
    std::optional<size_t> target;
    std::string_view reason;
  };

  bool is_empty_ = true;
  std::vector<Partner> partners_;
  std::vector<bool> taken_;
};

// One way to tell which tensors belong together. Immutable, hence thread-safe.
class Pairing {
 public:
  virtual ~Pairing() = default;

  // Joins what belongs together of those that have no partner yet. Takes time
  // in proportion to the number of tensors.
  virtual void Pair(const PairingSides& sides, Partners& partners) const = 0;
};

// Returns the pairings that `rules` ask for, in the order in which they are
// to be applied: by name, and those for what is left over. They borrow it.
std::vector<std::unique_ptr<const Pairing>> PairingsOf(const MatchRules& rules);

}  // namespace msitd::compare
