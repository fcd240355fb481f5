// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "daemon/compare/match/target_names.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

// Tensors whose names are equal once the rules have made golden names of
// those of the target. Several of one name are paired in the order of
// execution, those of which shards are amiss last.
class NamePairing final : public Pairing {
 public:
  explicit NamePairing(const MatchRules& rules) : rules_(rules) {}

  void Pair(const PairingSides& sides, Partners& partners) const override {
    if (IsInStep(sides, partners)) {
      for (size_t i = 0; i < sides.golden.size(); ++i) partners.Join(i, i, "");
      return;
    }
    TargetNames names(sides.with_device);
    // Of several with one name, those that are something go first.
    for (const bool is_sound : {true, false}) {
      for (size_t i = 0; i < sides.target.size(); ++i) {
        const LogicalTensor& target = sides.target[i];
        if (partners.IsTaken(i) || HasAllShards(target) != is_sound) continue;
        names.Add(PairName(rules_.KeyOfTarget(target.key.op), target.key),
                  target, i);
      }
    }
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      if (partners.TargetOf(i).has_value()) continue;
      const LogicalTensor& golden = sides.golden[i];
      const auto found =
          names.Take(PairName(rules_.KeyOfGolden(golden.key.op), golden.key),
                     golden, partners);
      if (found) partners.Join(i, *found, "");
    }
  }

 private:
  // True if all names are equal and in the same order, which is common, and
  // which a table of names is not needed for.
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

// The first golden tensor in the order of execution with the first target one
// that has its shape, io and index, and a like name of its op.
class LikenessPairing final : public Pairing {
 public:
  using NameOf = std::string (*)(std::string_view op);

  // `name_of` gives ops that are alike the same name.
  LikenessPairing(const MatchRules& rules, NameOf name_of,
                  std::string_view reason)
      : rules_(rules), name_of_(name_of), reason_(reason) {}

  void Pair(const PairingSides& sides, Partners& partners) const override {
    TargetNames names(sides.with_device);
    for (size_t i = 0; i < sides.target.size(); ++i) {
      if (partners.IsTaken(i)) continue;
      const LogicalTensor& target = sides.target[i];
      names.Add(NameFor(rules_.KeyOfTarget(target.key.op), target), target, i);
    }
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      if (partners.TargetOf(i).has_value()) continue;
      const LogicalTensor& golden = sides.golden[i];
      const auto found = names.Take(
          NameFor(rules_.KeyOfGolden(golden.key.op), golden), golden, partners);
      if (found) partners.Join(i, *found, reason_);
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
    : partners_(sides.golden.size()), taken_(sides.target.size()) {}

std::optional<size_t> Partners::TargetOf(size_t golden) const {
  return partners_[golden].target;
}

std::string_view Partners::ReasonOf(size_t golden) const {
  return partners_[golden].reason;
}

void Partners::Join(size_t golden, size_t target, std::string_view reason) {
  MSITD_CHECK(!partners_[golden].target.has_value() && !taken_[target]);
  partners_[golden] = {target, reason};
  taken_[target] = true;
  is_empty_ = false;
}

std::vector<std::unique_ptr<const Pairing>> PairingsOf(
    const MatchRules& rules) {
  std::vector<std::unique_ptr<const Pairing>> out;
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
