// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/torch/torch_torch.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/foreign/match/torch/module_tree.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

constexpr std::string_view kSameName = "the same name";
constexpr std::string_view kSamePlace = "modules of the same position";
constexpr LeftReason kNoPlace{"the other model has no module at its position"};
constexpr LeftReason kNoTensor{"its module in the other model lacks it"};
constexpr LeftReason kOtherSize{"it has a different size in the other model"};

using OpNumbers = std::unordered_map<std::string_view, size_t>;

OpNumbers NumbersOf(const RunFacts& run) {
  OpNumbers out;
  for (size_t i = 0; i < run.ops.size(); ++i) out.emplace(run.ops[i].op, i);
  return out;
}

std::string_view LastOf(std::string_view op) {
  return op.substr(op.rfind('.') + 1);  // npos + 1 is 0.
}

// Finds modules of two models at the same position. Layers correspond by
// number, or in order if their counts are equal. Within two modules at the same
// position, modules correspond by name, or in order within a type if their
// counts are equal.
class Places {
 public:
  Places(const ModuleTree& golden, const ModuleTree& target)
      : golden_(golden), target_(target) {
    const std::vector<size_t> goldens = golden.Layers();
    const std::vector<size_t> targets = target.Layers();
    JoinByName(goldens, targets);
    JoinInOrder(FreeOf(goldens, of_golden_), FreeOf(targets, of_target_));
    Join(0, 0);
    for (size_t i = 0; i < joined_.size(); ++i) {
      JoinChildren(joined_[i].first, joined_[i].second);
    }
  }

  // Returns the name of the golden module at the position of a target module;
  // null if there is none.
  const std::string* GoldenOf(std::string_view target_op) const {
    const auto found = golden_names_.find(target_op);
    return found == golden_names_.end() ? nullptr : found->second;
  }

 private:
  void Join(size_t golden, size_t target) {
    if (of_golden_.contains(golden) || of_target_.contains(target)) return;
    of_golden_.emplace(golden, target);
    of_target_.emplace(target, golden);
    joined_.emplace_back(golden, target);
    golden_names_.emplace(target_[target].op, &golden_[golden].op);
  }

  using Nodes = std::vector<size_t>;

  static Nodes FreeOf(const Nodes& nodes,
                      const std::map<size_t, size_t>& taken) {
    Nodes out;
    for (const size_t node : nodes) {
      if (!taken.contains(node)) out.push_back(node);
    }
    return out;
  }

  // Pairs modules with the same name, regardless of the modules that contain
  // them.
  void JoinByName(const Nodes& goldens, const Nodes& targets) {
    std::map<std::string_view, size_t> by_name;
    for (const size_t node : goldens) {
      by_name.emplace(LastOf(golden_[node].op), node);
    }
    for (const size_t node : targets) {
      const auto found = by_name.find(LastOf(target_[node].op));
      if (found != by_name.end()) Join(found->second, node);
    }
  }

  // Pairs them in order if their counts are equal.
  void JoinInOrder(const Nodes& goldens, const Nodes& targets) {
    if (goldens.size() != targets.size()) return;
    for (size_t i = 0; i < goldens.size(); ++i) Join(goldens[i], targets[i]);
  }

  void JoinChildren(size_t golden, size_t target) {
    const Nodes& goldens = golden_[golden].children;
    const Nodes& targets = target_[target].children;
    JoinByName(FreeOf(goldens, of_golden_), FreeOf(targets, of_target_));
    std::map<std::string_view, Nodes> golden_types;
    for (const size_t node : FreeOf(goldens, of_golden_)) {
      golden_types[golden_[node].type].push_back(node);
    }
    std::map<std::string_view, Nodes> target_types;
    for (const size_t node : FreeOf(targets, of_target_)) {
      target_types[target_[node].type].push_back(node);
    }
    for (const auto& [type, nodes] : target_types) {
      JoinInOrder(golden_types[type], nodes);
    }
  }

  const ModuleTree& golden_;
  const ModuleTree& target_;
  std::map<size_t, size_t> of_golden_;
  std::map<size_t, size_t> of_target_;
  std::vector<std::pair<size_t, size_t>> joined_;
  // By the op of the target.
  std::unordered_map<std::string_view, const std::string*> golden_names_;
};

class Matcher {
 public:
  Matcher(const RunFacts& golden, const RunFacts& target,
          MappingBuilder& builder)
      : golden_(golden),
        target_(target),
        golden_ops_(NumbersOf(golden)),
        target_ops_(NumbersOf(target)),
        builder_(builder) {}

  void ByName() {
    for (size_t i = 0; i < target_.ops.size(); ++i) {
      const auto found = golden_ops_.find(target_.ops[i].op);
      if (found != golden_ops_.end()) {
        Pair(found->second, i, kSameName, /*needs_size=*/false);
      }
    }
  }

  void ByPlace(const Places& places) {
    for (size_t i = 0; i < target_.ops.size(); ++i) {
      if (golden_ops_.contains(target_.ops[i].op)) continue;
      const auto golden = GoldenAt(places, target_.ops[i].op);
      if (golden.has_value()) {
        Pair(*golden, i, kSamePlace, /*needs_size=*/true);
      }
    }
  }

 private:
  // Returns the golden op at the position of a target op, which may be called
  // by a module. Returns nothing if there is none, or if the target run has it
  // too.
  std::optional<size_t> GoldenAt(const Places& places,
                                 std::string_view target_op) const {
    for (std::string_view module = target_op;;) {
      const std::string* const golden = places.GoldenOf(module);
      if (golden != nullptr) {
        const std::string op =
            *golden + std::string(target_op.substr(module.size()));
        const auto found = golden_ops_.find(op);
        const bool is_free =
            found != golden_ops_.end() && !target_ops_.contains(op);
        return is_free ? std::optional(found->second) : std::nullopt;
      }
      const size_t dot = module.rfind('.');
      if (dot == std::string_view::npos) return std::nullopt;
      module = module.substr(0, dot);
    }
  }

  void Pair(size_t golden, size_t target, std::string_view reason,
            bool needs_size) {
    const OpFacts& golden_op = golden_.ops[golden];
    const OpFacts& target_op = target_.ops[target];
    for (size_t i = 0; i < target_op.tensors.size(); ++i) {
      const TensorFacts& tensor = target_op.tensors[i];
      const auto other = FindTensor(golden_op, tensor.io, tensor.index);
      if (!other.has_value()) {
        builder_.LeaveTarget({target, i}, kNoTensor);
      } else if (needs_size && !HasSizeOf(tensor, golden_op.tensors[*other])) {
        builder_.LeaveTarget({target, i}, kOtherSize);
        builder_.LeaveGolden({golden, *other}, kOtherSize);
      } else {
        builder_.Pair({golden, *other}, {target, i}, reason);
      }
    }
    for (size_t i = 0; i < golden_op.tensors.size(); ++i) {
      builder_.LeaveGolden({golden, i}, kNoTensor);
    }
  }

  // A position is a guess, and a different size disproves it. Ranks may have
  // pieces.
  static bool HasSizeOf(const TensorFacts& a, const TensorFacts& b) {
    const uint64_t one = ElementCount(a.shape);
    const uint64_t other = ElementCount(b.shape);
    return one == other || one == b.all_count || a.all_count == other ||
           a.all_count == b.all_count;
  }

  const RunFacts& golden_;
  const RunFacts& target_;
  const OpNumbers golden_ops_;
  const OpNumbers target_ops_;
  MappingBuilder& builder_;
};

}  // namespace

absl::StatusOr<Mapping> MatchTorchWithTorch(const RunFacts& golden,
                                            const RunFacts& target) {
  MappingBuilder builder(golden, target);
  // For most runs, the names of ops suffice.
  const auto tree_of = [&builder](const RunFacts& run) {
    auto tree = TorchTreeOf(run);
    if (tree.ok()) return *std::move(tree);
    builder.Note(std::string(Message(tree.status())));
    return TreeOfOps(run);
  };
  const ModuleTree golden_tree = tree_of(golden);
  const ModuleTree target_tree = tree_of(target);
  Matcher matcher(golden, target, builder);
  matcher.ByName();
  matcher.ByPlace(Places(golden_tree, target_tree));
  MSITD_ASSIGN_OR_RETURN(Mapping mapping, builder.Finish(kNoPlace, kNoPlace));
  // Tensors with the same name need no line.
  std::erase_if(mapping.lines,
                [](const Line& line) { return line.reason == kSameName; });
  mapping.pairs_others = true;
  return mapping;
}

}  // namespace msitd::match
