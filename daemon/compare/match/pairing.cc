// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/compare/match/call_alignment.h"
#include "daemon/compare/match/target_names.h"
#include "daemon/compare/match/tensor_mapping.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

constexpr std::string_view kNotMapped = "not in the mapping";
constexpr std::string_view kCounterpartMissing =
    "what the mapping pairs it with is not there";
constexpr std::string_view kViewedInOrder =
    "backward calls are paired by their order; a line with golden_view needs "
    "the call number";
constexpr std::string_view kSamePlace =
    "the same place in the order of execution";
constexpr std::string_view kBackwardOrder =
    "the same place among the backward calls of its op";

// The backward calls of one run, numbered by their order among those of the op.
class Calls {
 public:
  Calls(std::span<const LogicalTensor> tensors, bool with_device)
      : with_device_(with_device) {
    for (const LogicalTensor& tensor : tensors) {
      if (!IsOfBackwardCall(tensor.key.io)) continue;
      Places& places = by_op_[OpOf(tensor.key)];
      places.try_emplace(tensor.key.call, static_cast<int32_t>(places.size()));
    }
  }

  // Returns the key of a backward tensor of this run, with the position of its
  // call as call number.
  TensorKey PlaceOf(const LogicalTensor& tensor) const {
    TensorKey key = tensor.key;
    key.call = by_op_.at(OpOf(key)).at(key.call);
    return key;
  }

 private:
  using Places = std::unordered_map<int32_t, int32_t>;

  std::string OpOf(const TensorKey& key) const {
    return with_device_ ? key.op + '\0' + key.device : key.op;
  }

  const bool with_device_;
  std::unordered_map<std::string, Places> by_op_;
};

// Determines the ops whose backward calls are paired by order. These are the
// ops for which each run has a call number that the other lacks. For other ops,
// the numbers agree and the run with fewer numbers lacks calls.
class BackwardOrder {
 public:
  // `op` is the name that will be passed to IsBy.
  void AddGolden(std::string op, const TensorKey& key) {
    if (IsOfBackwardCall(key.io)) golden_[std::move(op)].insert(key.call);
  }
  void AddTarget(std::string op, const TensorKey& key) {
    if (IsOfBackwardCall(key.io)) target_[std::move(op)].insert(key.call);
  }

  // Returns whether backward calls of two ops are paired by order. Must be
  // called after all calls were added.
  bool IsBy(const std::string& golden_op, const std::string& target_op) {
    const auto [known, is_new] =
        known_.try_emplace(golden_op + '\0' + target_op, false);
    if (!is_new) return known->second;
    const auto golden = golden_.find(golden_op);
    const auto target = target_.find(target_op);
    known->second = golden != golden_.end() && target != target_.end() &&
                    !HasAll(golden->second, target->second) &&
                    !HasAll(target->second, golden->second);
    return known->second;
  }

 private:
  using Numbers = std::set<int32_t>;

  static bool HasAll(const Numbers& all, const Numbers& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
  }

  std::unordered_map<std::string, Numbers> golden_;
  std::unordered_map<std::string, Numbers> target_;
  std::unordered_map<std::string, bool> known_;
};

// Finds golden tensors by name. A golden tensor can be found several times.
class GoldenNames {
 public:
  // With `calls`, contains only backward tensors, with the positions of their
  // calls as call numbers.
  explicit GoldenNames(const PairingSides& sides, const Calls* calls = nullptr)
      : sides_(sides) {
    // Tensors with all shards are preferred, as in NamePairing.
    for (const bool is_sound : {true, false}) {
      for (size_t i = 0; i < sides.golden.size(); ++i) {
        const LogicalTensor& golden = sides.golden[i];
        if (HasAllShards(golden) != is_sound) continue;
        if (calls != nullptr && !IsOfBackwardCall(golden.key.io)) continue;
        const TensorKey key =
            calls == nullptr ? golden.key : calls->PlaceOf(golden);
        std::string name = PairName(key.op, key);
        if (golden.mapped_pair.has_value()) {
          name = NameOfPair(name, *golden.mapped_pair);
        }
        by_name_[std::move(name)].push_back(i);
      }
    }
  }

  // Like Find, among the golden tensors that are seen as pair `number` of the
  // mapping states.
  std::optional<size_t> FindViewed(const std::string& name, size_t number,
                                   const LogicalTensor& target) {
    return Find(NameOfPair(name, number), target);
  }

  // Returns the golden tensor of this name that belongs to a target tensor, or
  // nothing. If there are several, the first target tensor of a name gets the
  // first golden one, the second target tensor the second one, and so on.
  std::optional<size_t> Find(const std::string& name,
                             const LogicalTensor& target) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    const std::vector<size_t>& all = found->second;
    if (all.size() == 1) {
      return Fits(all[0], target) ? std::optional(all[0]) : std::nullopt;
    }
    std::vector<size_t> fitting;
    for (const size_t golden : all) {
      if (Fits(golden, target)) fitting.push_back(golden);
    }
    if (fitting.empty()) return std::nullopt;
    // Several pairs of the mapping can have the same target.
    std::string from = name + '\0' + PairName(target.key.op, target.key) + '\0';
    if (sides_.with_device) from += target.key.device;
    return fitting[std::min(found_[from]++, fitting.size() - 1)];
  }

 private:
  // The number is first, so that no name of a tensor is equal: ops are not
  // empty.
  static std::string NameOfPair(const std::string& name, size_t number) {
    return fmt::format("{}{}{}{}", '\0', number, '\0', name);
  }

  bool Fits(size_t golden, const LogicalTensor& target) const {
    const LogicalTensor& other = sides_.golden[golden];
    return !sides_.with_device || other.assembly != nullptr ||
           target.assembly != nullptr || other.key.device == target.key.device;
  }

  const PairingSides& sides_;
  // By PairName, or by NameOfPair for golden tensors with the view of a pair.
  std::unordered_map<std::string, std::vector<size_t>> by_name_;
  // How often a target tensor of a name was looked up successfully.
  std::unordered_map<std::string, size_t> found_;
};

// Finds golden backward tensors for target tensors by the order of calls.
class OrderedNames {
 public:
  explicit OrderedNames(const PairingSides& sides)
      : targets_(sides.target, sides.with_device),
        goldens_(sides.golden, sides.with_device),
        names_(sides, &goldens_) {
    for (const LogicalTensor& golden : sides.golden) {
      order_.AddGolden(golden.key.op, golden.key);
    }
    for (const LogicalTensor& target : sides.target) {
      order_.AddTarget(target.key.op, target.key);
    }
  }

  // Returns whether the target tensor is paired by order with one of the golden
  // op.
  bool Has(const std::string& golden_op, const LogicalTensor& target) {
    return IsOfBackwardCall(target.key.io) &&
           order_.IsBy(golden_op, target.key.op);
  }

  // Returns the golden tensor for `target` according to pair `number` of the
  // mapping, or nothing.
  std::optional<size_t> Find(const TensorMapping& mapping, size_t number,
                             const LogicalTensor& target) {
    return names_.Find(mapping.GoldenName(number, targets_.PlaceOf(target)),
                       target);
  }

 private:
  const Calls targets_;
  const Calls goldens_;
  GoldenNames names_;
  BackwardOrder order_;
};

// Pairs the tensors that the mapping names. A golden tensor may have several
// targets.
class MappingPairing final : public Pairing {
 public:
  explicit MappingPairing(const MatchRules& rules)
      : mapping_(*rules.mapping()),
        pairs_others_(rules.pairs_others()),
        backward_order_(rules.backward_order()) {}

  void Pair(const PairingSides& sides, Partners& partners) const override {
    GoldenNames names(sides);
    std::optional<OrderedNames> ordered_names;
    if (backward_order_) ordered_names.emplace(sides);
    for (const bool is_sound : {true, false}) {
      for (size_t i = 0; i < sides.target.size(); ++i) {
        const LogicalTensor& target = sides.target[i];
        if (partners.IsTaken(i) || HasAllShards(target) != is_sound) continue;
        const std::optional<size_t> number =
            target.mapped_pair.has_value()
                ? std::optional<size_t>(*target.mapped_pair)
                : mapping_.Find(target.key);
        if (!number.has_value()) {
          if (!pairs_others_) partners.LeaveTarget(i, {kNotMapped});
          continue;
        }
        if (mapping_.pair(*number).is_alone()) {
          partners.LeaveTarget(i, BondOf(*number));
          continue;
        }
        const MappedTensor& line = mapping_.pair(*number).golden;
        // A call number in the mapping is the number of the call itself.
        const bool is_ordered = backward_order_ && !line.call.has_value() &&
                                ordered_names->Has(line.op, target);
        const bool is_viewed = !mapping_.pair(*number).golden_view.empty();
        if (is_viewed && is_ordered) {
          partners.LeaveTarget(i, {kViewedInOrder});
          continue;
        }
        const auto golden =
            is_viewed
                ? names.FindViewed(mapping_.GoldenName(*number, target.key),
                                   *number, target)
            : is_ordered
                ? ordered_names->Find(mapping_, *number, target)
                : names.Find(mapping_.GoldenName(*number, target.key), target);
        if (golden.has_value()) {
          partners.Join(*golden, i, BondOf(*number));
        } else {
          partners.LeaveTarget(i, {kCounterpartMissing});
        }
      }
    }
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      if (partners.TargetOf(i).has_value()) continue;
      const std::optional<size_t> number =
          mapping_.FindGolden(sides.golden[i].key);
      if (number.has_value()) {
        partners.LeaveGolden(i, mapping_.pair(*number).is_alone()
                                    ? BondOf(*number)
                                    : Bond{kCounterpartMissing});
      } else if (!pairs_others_) {
        partners.LeaveGolden(i, {kNotMapped});
      }
    }
  }

 private:
  Bond BondOf(size_t number) const {
    return {mapping_.pair(number).reason, static_cast<uint32_t>(number)};
  }

  const TensorMapping& mapping_;
  const bool pairs_others_;
  const bool backward_order_;
};

// Names of tensors for NamePairing, if backward calls of some ops are paired by
// order.
class NumberedNames {
 public:
  NumberedNames(const MatchRules& rules, const PairingSides& sides)
      : rules_(rules),
        goldens_(sides.golden, sides.with_device),
        targets_(sides.target, sides.with_device) {
    for (const LogicalTensor& golden : sides.golden) {
      order_.AddGolden(rules.KeyOfGolden(golden.key.op), golden.key);
    }
    for (const LogicalTensor& target : sides.target) {
      order_.AddTarget(rules.KeyOfTarget(target.key.op), target.key);
    }
  }

  std::string OfGolden(const LogicalTensor& golden) {
    return Of(rules_.KeyOfGolden(golden.key.op), goldens_, golden,
              golden.key.call);
  }
  // `call` is the number of the golden call that belongs to the target tensor.
  std::string OfTarget(const LogicalTensor& target, int32_t call) {
    return Of(rules_.KeyOfTarget(target.key.op), targets_, target, call);
  }

 private:
  std::string Of(const std::string& op, const Calls& calls,
                 const LogicalTensor& tensor, int32_t call) {
    const bool is_ordered =
        IsOfBackwardCall(tensor.key.io) && order_.IsBy(op, op);
    if (is_ordered) return PairName(op, calls.PlaceOf(tensor));
    return PairName(op, tensor.key, call);
  }

  const MatchRules& rules_;
  const Calls goldens_;
  const Calls targets_;
  BackwardOrder order_;
};

// Pairs tensors whose names are equal after the rules were applied to those of
// the target. CallAlignment determines the call numbers of ops that one run
// calls more often. Several tensors with one name are paired in execution
// order: first those with all shards, then those that lack shards.
class NamePairing final : public Pairing {
 public:
  explicit NamePairing(const MatchRules& rules) : rules_(rules) {}

  void Pair(const PairingSides& sides, Partners& partners) const override {
    if (IsInStep(sides, partners)) {
      for (size_t i = 0; i < sides.golden.size(); ++i) partners.Join(i, i, {});
      return;
    }
    std::optional<NumberedNames> numbered;
    if (rules_.backward_order()) numbered.emplace(rules_, sides);
    const auto golden_name = [&](const LogicalTensor& golden) {
      return numbered.has_value()
                 ? numbered->OfGolden(golden)
                 : PairName(rules_.KeyOfGolden(golden.key.op), golden.key);
    };
    const CallAlignment calls(rules_, sides, partners);
    const auto target_name = [&](const LogicalTensor& target, int32_t call) {
      return numbered.has_value() ? numbered->OfTarget(target, call)
                                  : PairName(rules_.KeyOfTarget(target.key.op),
                                             target.key, call);
    };
    TargetNames names(sides.with_device);
    // Among tensors with one name, those with all shards are first.
    for (const bool is_sound : {true, false}) {
      for (size_t i = 0; i < sides.target.size(); ++i) {
        const LogicalTensor& target = sides.target[i];
        if (!partners.IsTargetFree(i) || HasAllShards(target) != is_sound) {
          continue;
        }
        const std::optional<int32_t> call = calls.GoldenCallOf(i);
        if (call.has_value()) names.Add(target_name(target, *call), target, i);
      }
    }
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      if (!partners.IsGoldenFree(i)) continue;
      const LogicalTensor& golden = sides.golden[i];
      const auto found = names.Take(golden_name(golden), golden, partners);
      if (!found) continue;
      const bool is_aligned = calls.GoldenCallOf(*found) == golden.key.call;
      const bool has_own_call =
          sides.target[*found].key.call == golden.key.call;
      partners.Join(i, *found,
                    {has_own_call ? ""
                     : is_aligned ? kSamePlace
                                  : kBackwardOrder});
    }
  }

 private:
  // Returns whether all names are equal and in the same order. This is common,
  // and requires no table of names.
  bool IsInStep(const PairingSides& sides, const Partners& partners) const {
    const auto is_pair = [&sides](const LogicalTensor& golden,
                                  const LogicalTensor& target) {
      return golden.assembly == nullptr && target.assembly == nullptr &&
             golden.key.op == target.key.op &&
             golden.key.index == target.key.index &&
             golden.key.call == target.key.call &&
             golden.key.io == target.key.io &&
             (!sides.with_device || golden.key.device == target.key.device);
    };
    return !rules_.renames() && partners.is_empty() &&
           std::equal(sides.golden.begin(), sides.golden.end(),
                      sides.target.begin(), sides.target.end(), is_pair);
  }

  const MatchRules& rules_;
};

// Pairs each free golden tensor, in execution order, with the first free target
// tensor that has the same shape, io and index, and an op with a similar name.
class LikenessPairing final : public Pairing {
 public:
  using NameOf = std::string (*)(std::string_view op);

  // `name_of` returns equal names for ops that are similar.
  LikenessPairing(const MatchRules& rules, NameOf name_of,
                  std::string_view reason)
      : rules_(rules), name_of_(name_of), reason_(reason) {}

  void Pair(const PairingSides& sides, Partners& partners) const override {
    TargetNames names(sides.with_device);
    for (size_t i = 0; i < sides.target.size(); ++i) {
      if (!partners.IsTargetFree(i)) continue;
      const LogicalTensor& target = sides.target[i];
      names.Add(NameFor(rules_.KeyOfTarget(target.key.op), target), target, i);
    }
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      if (!partners.IsGoldenFree(i)) continue;
      const LogicalTensor& golden = sides.golden[i];
      const auto found = names.Take(
          NameFor(rules_.KeyOfGolden(golden.key.op), golden), golden, partners);
      if (found) partners.Join(i, *found, {reason_});
    }
  }

 private:
  std::string NameFor(std::string_view op, const LogicalTensor& tensor) const {
    return fmt::format("{}{}{}{}{}{}{}", name_of_(op), '\0',
                       fmt::join(tensor.shape, ","), '\0',
                       IoName(tensor.key.io), '\0', tensor.key.index);
  }

  const MatchRules& rules_;
  const NameOf name_of_;
  const std::string_view reason_;
};

std::string NameItself(std::string_view op) { return std::string(op); }

}  // namespace

Partners::Partners(const PairingSides& sides)
    : goldens_(sides.golden.size()), targets_(sides.target.size()) {}

std::optional<size_t> Partners::TargetOf(size_t golden) const {
  return goldens_[golden].first;
}

std::optional<size_t> Partners::NextTarget(size_t target) const {
  return targets_[target].next;
}

void Partners::Join(size_t golden, size_t target, const Bond& bond) {
  MSITD_CHECK(!targets_[target].is_taken);
  Golden& partner = goldens_[golden];
  if (partner.first.has_value()) {
    targets_[partner.last].next = target;
  } else {
    partner.first = target;
  }
  partner.last = target;
  targets_[target].is_taken = true;
  targets_[target].bond = bond;
  is_empty_ = false;
}

void Partners::LeaveGolden(size_t golden, const Bond& why) {
  MSITD_CHECK(IsGoldenFree(golden) && !why.reason.empty());
  goldens_[golden].why_left = why;
}

void Partners::LeaveTarget(size_t target, const Bond& why) {
  MSITD_CHECK(IsTargetFree(target) && !why.reason.empty());
  targets_[target].why_left = why;
}

bool Partners::IsGoldenFree(size_t golden) const {
  return !goldens_[golden].first.has_value() &&
         goldens_[golden].why_left.reason.empty();
}

bool Partners::IsTargetFree(size_t target) const {
  return !targets_[target].is_taken && targets_[target].why_left.reason.empty();
}

const Bond& Partners::WhyGoldenIsLeft(size_t golden) const {
  return goldens_[golden].why_left;
}

const Bond& Partners::WhyTargetIsLeft(size_t target) const {
  return targets_[target].why_left;
}

std::vector<std::unique_ptr<const Pairing>> PairingsOf(
    const MatchRules& rules) {
  std::vector<std::unique_ptr<const Pairing>> out;
  if (rules.is_mapped()) {
    MSITD_CHECK(rules.mapping() != nullptr);
    out.push_back(std::make_unique<MappingPairing>(rules));
    if (!rules.pairs_others()) return out;
  }
  out.push_back(std::make_unique<NamePairing>(rules));
  if (!rules.fuzzy()) return out;
  out.push_back(std::make_unique<LikenessPairing>(
      rules, NameItself, "the same op, at another call"));
  out.push_back(std::make_unique<LikenessPairing>(
      rules, MatchRules::LooseName,
      "the same op, but for wrappers, case and separators"));
  return out;
}

}  // namespace msitd::compare
