// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/torch/torch_atb.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/foreign/match/arguments.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/match/torch/module_pairs.h"
#include "client/foreign/match/torch/module_tree.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

constexpr std::string_view kAtb = "atb";
constexpr std::string_view kTopologies = "model/";
// The suffix of a tensor as it was before the operation overwrote it.
constexpr std::string_view kBefore = ".before";
// The prefix of the ops of a warm-up.
constexpr std::string_view kWarmUp = "warmup/";

constexpr std::string_view kLikeness = "modules of the same position or name";
constexpr LeftReason kNoRule{"no rule applies to it", /*is_expected=*/true};
constexpr LeftReason kOtherSize{"no tensor of the other model has its size"};
constexpr LeftReason kNotRecorded{"its counterpart was not recorded"};

bool IsTopologyName(std::string_view file) {
  return file.starts_with(kTopologies) && file.ends_with(".json");
}

// Returns false for a different file of another process. The file of another
// device belongs to the same model.
bool IsOfFirstProcess(std::string_view file) {
  return file.find('/', kTopologies.size()) == std::string_view::npos;
}

using OpNumbers = std::unordered_map<std::string_view, size_t>;

// The numbers after `prefix` in the names of ops.
OpNumbers NumbersOf(const RunFacts& run, std::string_view prefix = "") {
  OpNumbers out;
  for (size_t i = 0; i < run.ops.size(); ++i) {
    const std::string_view op = run.ops[i].op;
    if (op.starts_with(prefix)) out.emplace(op.substr(prefix.size()), i);
  }
  return out;
}

size_t CountRecorded(const ModuleTree& tree, const OpNumbers& ops) {
  size_t out = 0;
  for (const size_t node : tree.AllOf(0)) out += ops.contains(tree[node].op);
  return out;
}

size_t CountRecorded(const std::vector<ModuleTree>& trees,
                     const OpNumbers& ops) {
  size_t out = 0;
  for (const ModuleTree& tree : trees) out += CountRecorded(tree, ops);
  return out;
}

bool SaysDecode(std::string_view text) {
  const std::string_view word = "decode";
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return (a | 0x20) == b; }) !=
         text.end();
}

// Returns the topologies in the order in which their operations are numbered,
// which is the order of execution; for equal numbers, decode is last. Each has
// the numbers in its names plus `shift`.
absl::StatusOr<std::vector<ModuleTree>> NumberByNames(
    const std::vector<const TextFile*>& files, size_t shift) {
  using Place = std::tuple<size_t, bool, std::string_view>;
  std::vector<std::pair<Place, ModuleTree>> found;
  for (const TextFile* file : files) {
    MSITD_ASSIGN_OR_RETURN(const ModuleTree read,
                           ParseTopology(file->name, file->text, 0));
    const size_t first = FirstNumberOf(read);
    MSITD_ASSIGN_OR_RETURN(
        ModuleTree tree, ParseTopology(file->name, file->text, first + shift));
    found.emplace_back(Place(first, SaysDecode(file->name), file->name),
                       std::move(tree));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ModuleTree> out;
  for (auto& [place, tree] : found) out.push_back(std::move(tree));
  return out;
}

// Numbers each topology after the previous one. Recorded ops determine the
// order.
absl::StatusOr<std::vector<ModuleTree>> NumberInARow(
    std::vector<const TextFile*> files, const OpNumbers& ops) {
  std::vector<ModuleTree> out;
  for (size_t first = 0; !files.empty();) {
    std::optional<ModuleTree> best;
    size_t best_file = 0;
    size_t most = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      MSITD_ASSIGN_OR_RETURN(
          ModuleTree tree,
          ParseTopology(files[i]->name, files[i]->text, first));
      const size_t count = CountRecorded(tree, ops);
      if (best.has_value() && count <= most) continue;
      most = count;
      best_file = i;
      best = std::move(tree);
    }
    first += (*best)[0].children.size();
    out.push_back(*std::move(best));
    files.erase(files.begin() + static_cast<ptrdiff_t>(best_file));
  }
  return out;
}

// Returns the topologies of a run, such as those of prefill and decode. Their
// names contain the numbers of operations, which are one higher if a tensor was
// converted before. If most recorded ops have other numbers, those are used.
absl::StatusOr<std::vector<ModuleTree>> TopologiesOf(const RunFacts& run,
                                                     const OpNumbers& ops) {
  std::vector<const TextFile*> files;
  for (const TextFile& file : run.files) {
    if (!IsTopologyName(file.name) || !IsOfFirstProcess(file.name)) continue;
    MSITD_ASSIGN_OR_RETURN(const bool has_nodes,
                           HasNodes(file.name, file.text));
    if (has_nodes) files.push_back(&file);
  }
  if (files.empty() || files.size() > kTopologiesMax) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "run {} has {} topologies, attachments called "
                      "model/*.json that have nodes; 1 to {} are needed",
                      run.run, files.size(), kTopologiesMax);
  }
  MSITD_ASSIGN_OR_RETURN(std::vector<ModuleTree> out,
                         NumberByNames(files, /*shift=*/0));
  const auto take_better = [&](std::vector<ModuleTree> other) {
    if (CountRecorded(other, ops) > CountRecorded(out, ops)) {
      out = std::move(other);
    }
  };
  MSITD_ASSIGN_OR_RETURN(auto shifted, NumberByNames(files, /*shift=*/1));
  take_better(std::move(shifted));
  MSITD_ASSIGN_OR_RETURN(auto in_a_row, NumberInARow(files, ops));
  take_better(std::move(in_a_row));
  return out;
}

absl::StatusOr<std::vector<ModuleTree>> TreesOf(const RunFacts& run,
                                                const OpNumbers& ops) {
  if (run.source == kAtb) return TopologiesOf(run, ops);
  MSITD_ASSIGN_OR_RETURN(ModuleTree tree, TorchTreeOf(run));
  return std::vector{std::move(tree)};
}

// One side of the match: the torch model, or the model of the library.
struct Side {
  const RunFacts& run;
  OpNumbers ops;
  std::vector<ModuleTree> trees;
};

absl::StatusOr<Side> SideOf(const RunFacts& run) {
  Side out{run, NumbersOf(run), {}};
  MSITD_ASSIGN_OR_RETURN(out.trees, TreesOf(run, out.ops));
  return out;
}

// Returns 1, 2 or 3 for a query, a key or a value of attention; otherwise 0.
size_t PlaceInQkv(std::string_view module) {
  constexpr std::string_view kParts[] = {"q_proj", "k_proj", "v_proj"};
  const std::string_view last = module.substr(module.rfind('.') + 1);
  const auto found = std::find(std::begin(kParts), std::end(kParts), last);
  return found == std::end(kParts)
             ? 0
             : static_cast<size_t>(found - std::begin(kParts)) + 1;
}

// The library returns query, key and value in this order, but models may have
// them in another one. Other pairs keep their positions.
std::vector<ModulePair> InOrderOfQkv(const ModuleTree& torch,
                                     std::vector<ModulePair> pairs) {
  const auto place_of = [&torch](const ModulePair& pair) {
    return PlaceInQkv(torch[pair.torch].op);
  };
  std::map<size_t, std::vector<size_t>> places;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (place_of(pairs[i]) > 0) places[pairs[i].atb].push_back(i);
  }
  for (const auto& [atb, numbers] : places) {
    std::vector<ModulePair> parts;
    for (const size_t i : numbers) parts.push_back(pairs[i]);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const ModulePair& a, const ModulePair& b) {
                       return place_of(a) < place_of(b);
                     });
    for (size_t i = 0; i < numbers.size(); ++i) pairs[numbers[i]] = parts[i];
  }
  return pairs;
}

// Tensors of an operation, and their candidates.
struct Candidates {
  std::vector<Slot> atb;
  std::vector<Slot> torch;  // In the order of the modules.
};

class Matcher {
 public:
  Matcher(const Side& torch, const Side& atb, bool is_torch_golden,
          const MatchOptions& options, MappingBuilder& builder)
      : torch_(torch),
        atb_(atb),
        is_torch_golden_(is_torch_golden),
        options_(options),
        builder_(builder) {}

  // `is_decode`: the tensors have the size of later tokens.
  void Match(const ModuleTree& torch, const ModuleTree& atb,
             const std::vector<ModulePair>& pairs, bool is_decode);

 private:
  // By op of the library, side and argument.
  using Key = std::tuple<size_t, Io, std::string>;

  std::vector<Slot> TensorsAt(const RunFacts& run, size_t op,
                              const ModulePlace& place, bool is_torch) const;
  void Resolve(const Candidates& candidates, bool is_decode);
  void Pair(Slot torch, Slot atb) {
    const auto [golden, target] =
        is_torch_golden_ ? std::pair(torch, atb) : std::pair(atb, torch);
    builder_.Pair(golden, target, kLikeness);
  }
  void LeaveAtb(Slot slot, const LeftReason& reason) {
    Leave(slot, /*is_golden=*/!is_torch_golden_, reason);
  }
  void LeaveTorch(Slot slot, const LeftReason& reason) {
    Leave(slot, /*is_golden=*/is_torch_golden_, reason);
  }
  void Leave(Slot slot, bool is_golden, const LeftReason& reason) {
    if (is_golden) {
      builder_.LeaveGolden(slot, reason);
    } else {
      builder_.LeaveTarget(slot, reason);
    }
  }
  TensorSizes SizesOf(const RunFacts& run, Slot slot, bool is_decode) const {
    const TensorFacts& tensor = run.ops[slot.op].tensors[slot.tensor];
    const uint64_t one =
        ElementCount(is_decode ? tensor.last_shape : tensor.shape);
    if (!options_.joins_ranks) return {one, one};
    return {one, is_decode ? tensor.last_all_count : tensor.all_count};
  }

  const Side& torch_;
  const Side& atb_;
  const bool is_torch_golden_;
  const MatchOptions& options_;
  MappingBuilder& builder_;
};

std::vector<Slot> Matcher::TensorsAt(const RunFacts& run, size_t op,
                                     const ModulePlace& place,
                                     bool is_torch) const {
  std::vector<Slot> out;
  for (const size_t i : ArgumentsOf(run.ops[op], place.io)) {
    const std::string_view index = run.ops[op].tensors[i].index;
    if (!place.index.empty() && index != place.index) continue;
    if (index.ends_with(kBefore)) continue;
    // msit does not read nested elements.
    const bool is_deep = index.find('.') != std::string_view::npos;
    if (options_.is_compat && is_torch && is_deep && place.index.empty()) {
      continue;
    }
    out.push_back({op, i});
  }
  return out;
}

void Matcher::Match(const ModuleTree& torch, const ModuleTree& atb,
                    const std::vector<ModulePair>& pairs, bool is_decode) {
  std::map<Key, Candidates> all;
  for (const ModulePair& pair : InOrderOfQkv(torch, pairs)) {
    const auto op = atb_.ops.find(atb[pair.atb].op);
    const auto other = torch_.ops.find(torch[pair.torch].op);
    std::vector<Slot> others;
    if (other != torch_.ops.end()) {
      others = TensorsAt(torch_.run, other->second, pair.torch_place,
                         /*is_torch=*/true);
    }
    if (op == atb_.ops.end()) {
      for (const Slot slot : others) LeaveTorch(slot, kNotRecorded);
      continue;
    }
    const auto tensors = TensorsAt(atb_.run, op->second, pair.atb_place,
                                   /*is_torch=*/false);
    if (other == torch_.ops.end()) {
      for (const Slot slot : tensors) LeaveAtb(slot, kNotRecorded);
      continue;
    }
    Candidates& candidates =
        all[{op->second, pair.atb_place.io, pair.atb_place.index}];
    candidates.atb = tensors;
    candidates.torch.insert(candidates.torch.end(), others.begin(),
                            others.end());
  }
  for (const auto& [key, candidates] : all) Resolve(candidates, is_decode);
}

// The same number on both sides: paired one by one, such as the parts of a
// query, key and value. A different size means a different tensor, because the
// rules only guess.
void Matcher::Resolve(const Candidates& candidates, bool is_decode) {
  std::vector<TensorSizes> torch;
  std::vector<TensorSizes> atb;
  for (const Slot slot : candidates.torch) {
    torch.push_back(SizesOf(torch_.run, slot, is_decode));
  }
  for (const Slot slot : candidates.atb) {
    atb.push_back(SizesOf(atb_.run, slot, is_decode));
  }
  for (const auto& [i, j] : AlignSizes(torch, atb)) {
    Pair(candidates.torch[i], candidates.atb[j]);
  }
  for (const Slot slot : candidates.atb) LeaveAtb(slot, kOtherSize);
  for (const Slot slot : candidates.torch) LeaveTorch(slot, kOtherSize);
}

// Pairs all outputs of a module with all inputs of an operation, for a rope.
void AddRopes(const ModuleTree& torch, const ModuleTree& atb,
              const std::vector<ModulePair>& pairs,
              std::vector<RopeOps>& ropes) {
  for (const ModulePair& pair : pairs) {
    const bool is_rope = pair.torch_place == ModulePlace{Io::kOutput, ""} &&
                         pair.atb_place == ModulePlace{Io::kInput, ""};
    if (is_rope) ropes.push_back({torch[pair.torch].op, atb[pair.atb].op});
  }
}

bool IsOfLayers(ModuleLevel level) {
  return level == ModuleLevel::kLayer || level == ModuleLevel::kModule;
}

// Models with few layers have these only at the levels that consist of them.
LayersOfModels LayersFor(const ModuleTree& torch, const ModuleTree& atb,
                         const MatchOptions& options) {
  return FindLayers(torch, atb,
                    IsOfLayers(options.level) && !options.is_compat);
}

}  // namespace

bool IsModuleTree(std::string_view file) {
  return IsTopologyName(file) || file.ends_with(kModelTreeFile);
}

absl::StatusOr<Mapping> MatchTorchWithAtb(const RunFacts& golden,
                                          const RunFacts& target,
                                          const MatchOptions& options) {
  OpMapping user;
  if (!options.op_mapping.empty()) {
    MSITD_ASSIGN_OR_RETURN(user, ParseOpMapping(options.op_mapping));
  }
  const bool is_torch_golden = target.source == kAtb;
  MSITD_ASSIGN_OR_RETURN(const Side torch,
                         SideOf(is_torch_golden ? golden : target));
  MSITD_ASSIGN_OR_RETURN(const Side atb,
                         SideOf(is_torch_golden ? target : golden));
  MappingBuilder builder(golden, target);
  Matcher matcher(torch, atb, is_torch_golden, options, builder);
  const Side torch_warm_up{torch.run, NumbersOf(torch.run, kWarmUp), {}};
  const Side atb_warm_up{atb.run, NumbersOf(atb.run, kWarmUp), {}};
  const bool has_warm_ups =
      !torch_warm_up.ops.empty() && !atb_warm_up.ops.empty();
  Matcher warm_up_matcher(torch_warm_up, atb_warm_up, is_torch_golden, options,
                          builder);
  // One torch model is paired with both prefill and decode.
  const size_t count = std::max(torch.trees.size(), atb.trees.size());
  const bool is_recorded = CountRecorded(atb.trees, atb.ops) > 0;
  std::vector<RopeOps> ropes;
  bool lacks_layers = false;
  for (size_t i = 0; i < count; ++i) {
    if (options.graph.value_or(i) != i) continue;
    const ModuleTree& modules = torch.trees[i % torch.trees.size()];
    const ModuleTree& operations = atb.trees[i % atb.trees.size()];
    // A graph that did not run has no missing tensors.
    if (is_recorded && CountRecorded(operations, atb.ops) == 0) continue;
    const LayersOfModels layers = LayersFor(modules, operations, options);
    lacks_layers |= layers.torch.empty() || layers.atb.empty();
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<ModulePair> pairs,
        PairModules(modules, operations, options.level, user, layers));
    matcher.Match(modules, operations, pairs, /*is_decode=*/i > 0);
    AddRopes(modules, operations, pairs, ropes);
    if (has_warm_ups) {
      warm_up_matcher.Match(modules, operations, pairs, /*is_decode=*/false);
    }
  }
  if (lacks_layers && IsOfLayers(options.level)) {
    builder.Note(std::string(kFewLayers));
  }
  MSITD_ASSIGN_OR_RETURN(Mapping mapping, builder.Finish(kNoRule, kNoRule));
  mapping.ropes = std::move(ropes);
  return mapping;
}

}  // namespace msitd::match
