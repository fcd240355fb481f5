// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/msprobe/msprobe.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/ask/text/ignored_reason.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/match/msprobe/msprobe_layers.h"
#include "client/foreign/match/msprobe/msprobe_mapping.h"
#include "client/foreign/names/msprobe_names.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

constexpr std::string_view kByData = ask::kDataMappingReason;
constexpr std::string_view kByCell = "stated in the cell mapping";
constexpr std::string_view kByApi = "stated in the API mapping";
constexpr std::string_view kByLayer = "the same position in the layers";
constexpr std::string_view kByName = "the same name";
constexpr std::string_view kByOtherName = "its name in the other framework";

constexpr LeftReason kGoldenAlone = {"no target tensor corresponds to it"};
constexpr LeftReason kTargetAlone = {"no golden tensor corresponds to it"};
constexpr LeftReason kNoArgument = {"the golden call has no such argument"};
constexpr LeftReason kNotInApi = {"not in the API mapping", true};

constexpr LeftReason kIgnored = {ask::kIgnoredReason, true};

constexpr std::string_view kModule = "Module.";
constexpr std::string_view kCell = "Cell.";

// Equivalent prefixes, MindSpore's first.
constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
    {"Mint.", "Torch."},
    {"MintFunctional.", "Functional."},
    {"Functional.", "Torch."}};

// Names that differ between the frameworks, MindSpore's first.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"Functional.bidense", "Functional.bilinear"},
    {"Functional.dense", "Functional.linear"},
    {"Functional.equal", "Torch.eq"},
    {"Functional.swapaxes", "Torch.transpose"},
    {"Tensor.asnumpy", "Tensor.numpy"},
    {"Tensor.cauchy", "Tensor.cauchy_"},
    {"Tensor.equal", "Tensor.eq"},
    {"Tensor.fill_diagonal", "Tensor.fill_diagonal_"},
    {"Tensor.gather_elements", "Tensor.gather"},
    {"Tensor.swapaxes", "Tensor.transpose"}};

// Returns the name without `Cell.` or `Module.`; nothing if the op is not a
// module.
std::optional<std::string_view> ModuleOf(std::string_view op) {
  for (const std::string_view prefix : {kModule, kCell}) {
    if (op.starts_with(prefix)) return op.substr(prefix.size());
  }
  return std::nullopt;
}

// Returns the other names of an op that is not a module, in either framework.
std::vector<std::string> OtherNames(std::string_view op) {
  std::vector<std::string> out;
  for (const auto& [a, b] : kRenamed) {
    if (op == a) out.emplace_back(b);
    if (op == b) out.emplace_back(a);
  }
  for (const auto& [a, b] : kPrefixes) {
    if (op.starts_with(a)) {
      out.push_back(std::string(b) + std::string(op.substr(a.size())));
    }
    if (op.starts_with(b)) {
      out.push_back(std::string(a) + std::string(op.substr(b.size())));
    }
  }
  return out;
}

// Counts lines of a mapping file that match nothing, and remembers the first.
class Idle {
 public:
  void Add(const std::string& name) {
    ++count_;
    if (names_.size() < kExamplesMax) names_.push_back(name);
  }

  void Tell(std::string_view mapping, size_t line_count, std::string_view what,
            MappingBuilder& builder) const {
    if (count_ == 0) return;
    builder.Note(fmt::format("{}: {} of {} lines {}: {}{}", mapping, count_,
                             line_count, what, fmt::join(names_, ", "),
                             count_ > names_.size() ? ", ..." : ""));
  }

 private:
  size_t count_ = 0;
  std::vector<std::string> names_;
};

constexpr std::string_view kNoTarget = "name no tensor of the target run";
constexpr std::string_view kNoGolden = "name no tensor of the golden run";

// An index of the ops of a run.
class Ops {
 public:
  explicit Ops(const RunFacts& run) : run_(run) {
    for (size_t i = 0; i < run.ops.size(); ++i) by_name_[run.ops[i].op] = i;
  }

  std::optional<size_t> Find(std::string_view op) const {
    const auto found = by_name_.find(op);
    if (found == by_name_.end()) return std::nullopt;
    return found->second;
  }

  // Returns a call if the run has it.
  std::optional<Slot> Find(const names::MsprobeKey& key) const {
    const auto op = Find(key.op);
    if (!op.has_value() || key.call >= run_.ops[*op].call_count) {
      return std::nullopt;
    }
    const auto tensor = FindTensor(run_.ops[*op], key.io, key.index);
    if (!tensor.has_value()) return std::nullopt;
    return Slot{*op, *tensor};
  }

 private:
  const RunFacts& run_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

class MsprobeMatcher {
 public:
  MsprobeMatcher(const RunFacts& golden, const RunFacts& target,
                 const MsprobeMapping& mapping)
      : golden_(golden),
        target_(target),
        mapping_(mapping),
        goldens_(golden),
        targets_(target),
        builder_(golden, target),
        cells_used_(mapping.cells.size()) {}

  absl::StatusOr<Mapping> Match() {
    Ignore();
    PairData();
    if (mapping_.has_layers) {
      MSITD_RETURN_IF_ERROR(PairByLayers());
    } else {
      for (size_t op = 0; op < target_.ops.size(); ++op) PairByName(op);
      TellOfCells();
      TellOfApis();
    }
    return builder_.Finish(kGoldenAlone, kTargetAlone);
  }

 private:
  // Tensors, by op and tensor.
  using Slots = std::set<std::pair<size_t, size_t>>;

  // Leaves the arguments that the table names, on each side.
  void Ignore() {
    Marked count;
    std::vector<std::string> names;
    for (const MsprobeMapping::Ignored& rule : mapping_.ignored) {
      const size_t before = count.tensors;
      Mark(target_, targets_, rule, ignored_targets_, count);
      Mark(golden_, goldens_, rule, ignored_goldens_, count);
      if (count.tensors > before && names.size() < kExamplesMax) {
        names.push_back(
            fmt::format("{} {}/{}", rule.op, IoName(rule.io), rule.index));
      }
    }
    for (const auto& [op, tensor] : ignored_targets_) {
      builder_.LeaveTarget({op, tensor}, kIgnored);
    }
    for (const auto& [op, tensor] : ignored_goldens_) {
      builder_.LeaveGolden({op, tensor}, kIgnored);
    }
    if (count.tensors == 0) return;
    builder_.Note(fmt::format(
        "{} tensors are ignored{} (receive buffers and scratch memory): {}{}",
        count.tensors, RecordsText(count.tensors, count.records),
        fmt::join(names, ", "), names.size() == kExamplesMax ? ", ..." : ""));
  }

  struct Marked {
    size_t tensors = 0;
    size_t records = 0;
  };
  static void Mark(const RunFacts& run, const Ops& ops,
                   const MsprobeMapping::Ignored& rule, Slots& marks,
                   Marked& count) {
    const auto op = ops.Find(rule.op);
    if (!op.has_value()) return;
    const std::vector<TensorFacts>& tensors = run.ops[*op].tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string& index = tensors[i].index;
      const bool is_named =
          index == rule.index || index.starts_with(rule.index + ".");
      if (tensors[i].io != rule.io || !is_named) continue;
      if (!marks.emplace(*op, i).second) continue;
      ++count.tensors;
      count.records += tensors[i].record_count;
    }
  }

  // Returns true for a pair if a side is ignored. The other side is then
  // ignored too.
  bool IsIgnored(Slot golden, Slot target) {
    if (!ignored_targets_.contains({target.op, target.tensor}) &&
        !ignored_goldens_.contains({golden.op, golden.tensor})) {
      return false;
    }
    builder_.LeaveTarget(target, kIgnored);
    builder_.LeaveGolden(golden, kIgnored);
    return true;
  }

  void Pair(Slot golden, Slot target, std::string_view reason) {
    if (!IsIgnored(golden, target)) builder_.Pair(golden, target, reason);
  }

  void PairCall(Slot golden, int32_t golden_call, Slot target,
                int32_t target_call, std::string_view reason) {
    if (IsIgnored(golden, target)) return;
    builder_.PairCall(golden, golden_call, target, target_call, reason);
  }

  // A line of the data mapping applies to one call. If no op has other calls,
  // its pair needs no number.
  void PairData() {
    Idle no_target;
    Idle no_golden;
    for (const MsprobeMapping::Leaves& line : mapping_.data) {
      const auto target = targets_.Find(line.target);
      if (!target.has_value()) {
        no_target.Add(line.target.op);
        continue;
      }
      const auto golden = goldens_.Find(line.golden);
      if (!golden.has_value()) {
        no_golden.Add(line.golden.op);
        builder_.PairCallWithAbsent({.op = line.golden.op,
                                     .io = line.golden.io,
                                     .index = line.golden.index,
                                     .call = line.golden.call},
                                    *target, line.target.call, kByData);
      } else if (target_.ops[target->op].call_count == 1 &&
                 golden_.ops[golden->op].call_count == 1) {
        Pair(*golden, *target, kByData);
      } else {
        PairCall(*golden, line.golden.call, *target, line.target.call, kByData);
      }
    }
    no_target.Tell("data mapping", mapping_.data.size(), kNoTarget, builder_);
    no_golden.Tell("data mapping", mapping_.data.size(), kNoGolden, builder_);
  }

  absl::Status PairByLayers() {
    MSITD_ASSIGN_OR_RETURN(const LayerPairs layers,
                           PairLayers(golden_, target_, mapping_));
    for (const LayerPair& pair : layers.pairs) PairEntry(pair);
    if (layers.target_left + layers.golden_left > 0) {
      builder_.Note(
          fmt::format("{} calls of the target run and {} of the golden run "
                      "have no counterpart at their position in the layers",
                      layers.target_left, layers.golden_left));
    }
    Idle idle;
    for (size_t i = 0; i < mapping_.layers.size(); ++i) {
      const MsprobeMapping::Layers& line = mapping_.layers[i];
      if (!layers.is_used[i]) {
        idle.Add(fmt::format("{}.{}", line.type, line.target));
      }
    }
    idle.Tell("layer mapping", mapping_.layers.size(), kNoTarget, builder_);
    for (const RunFacts* run : {&golden_, &target_}) {
      const bool has_tree = std::any_of(
          run->files.begin(), run->files.end(), [](const TextFile& file) {
            return file.name == kMsprobeConstructFile;
          });
      if (!has_tree) {
        builder_.Note(
            fmt::format("run {} has no {}, so only its modules have a position "
                        "in the layers",
                        run->run, kMsprobeConstructFile));
      }
    }
    return absl::OkStatus();
  }

  static MsprobePass PassOf(Io io) {
    switch (io) {
      case Io::kGradInput:
      case Io::kGradOutput:
        return MsprobePass::kBackward;
      case Io::kGradWeight:
        return MsprobePass::kGradients;
      default:
        return MsprobePass::kForward;
    }
  }

  void PairEntry(const LayerPair& pair) {
    const OpFacts& target = target_.ops[pair.target_op];
    const OpFacts& golden = golden_.ops[pair.golden_op];
    for (size_t i = 0; i < target.tensors.size(); ++i) {
      const TensorFacts& tensor = target.tensors[i];
      if (PassOf(tensor.io) != pair.pass) continue;
      const auto other = FindTensor(golden, tensor.io, tensor.index);
      const Slot slot = {pair.target_op, i};
      if (!other.has_value()) {
        builder_.LeaveTarget(slot, kNoArgument);
      } else if (target.call_count == 1 && golden.call_count == 1) {
        Pair({pair.golden_op, *other}, slot, kByLayer);
      } else {
        PairCall({pair.golden_op, *other}, pair.golden_call, slot,
                 pair.target_call, kByLayer);
      }
    }
  }

  // Returns the name of a module of the golden run according to the cell
  // mapping: for the whole name if the mapping has it, and otherwise part by
  // part.
  std::string MappedModule(std::string_view name) {
    for (size_t i = 0; i < mapping_.cells.size(); ++i) {
      if (mapping_.cells[i].target != name) continue;
      cells_used_[i] = true;
      return mapping_.cells[i].golden;
    }
    std::string out(name);
    for (size_t i = 0; i < mapping_.cells.size(); ++i) {
      const MsprobeMapping::Cells& line = mapping_.cells[i];
      const size_t at = out.find(line.target);
      if (at == std::string::npos) continue;
      cells_used_[i] = true;
      out.replace(at, line.target.size(), line.golden);
      if (out.size() > kOpBytesMax) break;
    }
    return out;
  }

  const MsprobeMapping::Apis* ApiOf(std::string_view op) const {
    const auto found = std::find_if(
        mapping_.apis.begin(), mapping_.apis.end(),
        [op](const MsprobeMapping::Apis& api) { return api.target == op; });
    return found == mapping_.apis.end() ? nullptr : &*found;
  }

  void PairByName(size_t op) {
    const std::string& name = target_.ops[op].op;
    if (const auto module = ModuleOf(name)) {
      const std::string mapped = MappedModule(*module);
      const std::string_view reason =
          mapped == *module ? kByOtherName : kByCell;
      // The name in its own framework is first.
      const bool is_cell = name.starts_with(kCell);
      for (const std::string_view prefix :
           {is_cell ? kCell : kModule, is_cell ? kModule : kCell}) {
        const std::string other = std::string(prefix) + mapped;
        if (PairOps(op, other, other == name ? kByName : reason)) return;
      }
      return;
    }
    if (const auto* api = ApiOf(name)) {
      PairApi(op, *api);
      return;
    }
    if (PairOps(op, name, kByName)) return;
    for (const std::string& other : OtherNames(name)) {
      // The golden op belongs to the target op with this name.
      if (targets_.Find(other).has_value()) continue;
      if (PairOps(op, other, kByOtherName)) return;
    }
  }

  // Returns false, and does nothing, if the golden run has no such op.
  bool PairOps(size_t op, const std::string& golden, std::string_view reason) {
    const auto found = goldens_.Find(golden);
    if (!found.has_value()) return false;
    const std::vector<TensorFacts>& tensors = target_.ops[op].tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto other =
          FindTensor(golden_.ops[*found], tensors[i].io, tensors[i].index);
      if (other.has_value()) {
        Pair({*found, *other}, {op, i}, reason);
      } else {
        builder_.LeaveTarget({op, i}, kNoArgument);
      }
    }
    return true;
  }

  // Returns the list of arguments to which a tensor belongs.
  static const MsprobeMapping::Arguments& ArgumentsFor(
      const MsprobeMapping::Apis& api, Io io) {
    switch (io) {
      case Io::kInput:
      case Io::kGradInput:
        return api.inputs;
      case Io::kWeight:
        return api.parameters;
      case Io::kGradWeight:
        return api.gradients;
      default:
        return api.outputs;
    }
  }

  void PairApi(size_t op, const MsprobeMapping::Apis& api) {
    const auto golden = goldens_.Find(api.golden);
    if (!golden.has_value()) return;
    const std::vector<TensorFacts>& tensors = target_.ops[op].tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const MsprobeMapping::Arguments& arguments =
          ArgumentsFor(api, tensors[i].io);
      std::string index = tensors[i].index;
      if (arguments.is_given) {
        const auto found =
            std::find_if(arguments.pairs.begin(), arguments.pairs.end(),
                         [&](const auto& pair) { return pair.first == index; });
        if (found == arguments.pairs.end()) {
          builder_.LeaveTarget({op, i}, kNotInApi);
          continue;
        }
        index = found->second;
      }
      const auto other = FindTensor(golden_.ops[*golden], tensors[i].io, index);
      if (other.has_value()) {
        Pair({*golden, *other}, {op, i}, kByApi);
      } else {
        builder_.LeaveTarget({op, i}, kNoArgument);
      }
    }
    LeaveOthers(*golden, api);
  }

  // Leaves tensors of a golden API that the lists do not name.
  void LeaveOthers(size_t op, const MsprobeMapping::Apis& api) {
    const std::vector<TensorFacts>& tensors = golden_.ops[op].tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const MsprobeMapping::Arguments& arguments =
          ArgumentsFor(api, tensors[i].io);
      const bool is_named = std::any_of(
          arguments.pairs.begin(), arguments.pairs.end(),
          [&](const auto& pair) { return pair.second == tensors[i].index; });
      if (arguments.is_given && !is_named) {
        builder_.LeaveGolden({op, i}, kNotInApi);
      }
    }
  }

  void TellOfCells() {
    Idle idle;
    for (size_t i = 0; i < mapping_.cells.size(); ++i) {
      if (!cells_used_[i]) idle.Add(mapping_.cells[i].target);
    }
    idle.Tell("cell mapping", mapping_.cells.size(), kNoTarget, builder_);
  }

  void TellOfApis() {
    Idle no_target;
    Idle no_golden;
    for (const MsprobeMapping::Apis& api : mapping_.apis) {
      if (!targets_.Find(api.target).has_value()) {
        no_target.Add(api.target);
      } else if (!goldens_.Find(api.golden).has_value()) {
        no_golden.Add(api.golden);
      }
    }
    no_target.Tell("API mapping", mapping_.apis.size(), kNoTarget, builder_);
    no_golden.Tell("API mapping", mapping_.apis.size(), kNoGolden, builder_);
  }

  const RunFacts& golden_;
  const RunFacts& target_;
  const MsprobeMapping& mapping_;
  const Ops goldens_;
  const Ops targets_;
  MappingBuilder builder_;
  Slots ignored_targets_;
  Slots ignored_goldens_;
  std::vector<bool> cells_used_;
};

}  // namespace

absl::StatusOr<Mapping> MatchMsprobe(const RunFacts& golden,
                                     const RunFacts& target,
                                     const MatchOptions& options) {
  return MsprobeMatcher(golden, target, options.msprobe).Match();
}

}  // namespace msitd::match
