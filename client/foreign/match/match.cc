// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/match.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/foreign/match/engine/engine_match.h"
#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/engine/engine_table.h"
#include "client/foreign/match/ge/ge_fx.h"
#include "client/foreign/match/ge/ge_ge.h"
#include "client/foreign/match/ge/models.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/match/mindie.h"
#include "client/foreign/match/msprobe/msprobe.h"
#include "client/foreign/match/msprobe/msprobe_layers.h"
#include "client/foreign/match/torch/torch_atb.h"
#include "client/foreign/match/torch/torch_torch.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

// The names that client/foreign/trees gives to the trees it reads.
constexpr std::string_view kAtb = "atb";
constexpr std::string_view kFx = "fx";
constexpr std::string_view kGe = "ge";
constexpr std::string_view kMindie = "mindie";
constexpr std::string_view kMsit = "msit";

// The names of engines in their tables.
constexpr std::string_view kTransformers = "transformers";
constexpr std::string_view kVllm = "vllm";
constexpr std::string_view kSglang = "sglang";
constexpr std::string_view kMegatron = "megatron";

constexpr std::array<std::pair<Matcher, std::string_view>, 11> kNames = {
    {{Matcher::kGeFx, "ge-fx"},
     {Matcher::kGeGe, "ge-ge"},
     {Matcher::kGeSelf, "ge-self"},
     {Matcher::kMindie, "mindie"},
     {Matcher::kTorchAtb, "torch-atb"},
     {Matcher::kTorch, "torch"},
     {Matcher::kMsprobe, "msprobe"},
     {Matcher::kHfVllm, "hf-vllm"},
     {Matcher::kHfSglang, "hf-sglang"},
     {Matcher::kHfMegatron, "hf-megatron"},
     {Matcher::kEngines, "engines"}}};

// A torch model that msit or msitd recorded, in an engine or not.
bool IsTorch(std::string_view source) {
  return source.empty() || source == kMsit || IsEngine(source);
}

// Returns true if one is `a` and the other `b`.
bool Are(std::string_view golden, std::string_view target, std::string_view a,
         std::string_view b) {
  return (golden == a && target == b) || (golden == b && target == a);
}

bool IsTorchBeside(std::string_view golden, std::string_view target,
                   std::string_view other) {
  return (IsTorch(golden) && target == other) ||
         (golden == other && IsTorch(target));
}

// Returns the matcher of two engines.
Matcher MatcherOfEngines(std::string_view golden, std::string_view target) {
  if (Are(golden, target, kTransformers, kVllm)) return Matcher::kHfVllm;
  if (Are(golden, target, kTransformers, kSglang)) return Matcher::kHfSglang;
  if (Are(golden, target, kTransformers, kMegatron)) {
    return Matcher::kHfMegatron;
  }
  return Matcher::kEngines;
}

constexpr std::string_view kTaken = "its counterpart already has another one";

// The target tensors that have a golden tensor. All calls of a tensor are taken
// if one line uses all of them, or if another line requires all and one call is
// taken.
class TakenTargets {
 public:
  // Returns false, and does nothing, if it is already taken.
  bool Take(const Reference& tensor) {
    std::set<int32_t>& calls = calls_[{tensor.op, tensor.io, tensor.index}];
    const int32_t call = tensor.call.value_or(kAll);
    const bool is_taken = calls.contains(call) || calls.contains(kAll) ||
                          (call == kAll && !calls.empty());
    if (!is_taken) calls.insert(call);
    return !is_taken;
  }

 private:
  static constexpr int32_t kAll = -1;

  std::map<std::tuple<std::string, Io, std::string>, std::set<int32_t>> calls_;
};

bool IsWholeOp(const std::optional<Reference>& reference) {
  return reference.has_value() && reference->io == Io::kUnspecified;
}

using OpsByName = std::map<std::string_view, const OpFacts*>;

OpsByName ByName(const RunFacts& run) {
  OpsByName out;
  for (const OpFacts& op : run.ops) out.emplace(op.op, &op);
  return out;
}

// Splits pairs of whole ops of `run`, the golden side, into pairs of tensors if
// another line has a tensor of the op.
std::vector<Line> SplitShared(std::vector<Line> lines, const RunFacts& run) {
  std::map<std::string_view, size_t> line_counts;
  for (const Line& line : lines) {
    if (line.golden.has_value()) ++line_counts[line.golden->op];
  }
  const OpsByName ops = ByName(run);
  std::vector<Line> out;
  for (Line& line : lines) {
    const bool is_shared = IsWholeOp(line.golden) && line.pair_count > 0 &&
                           line_counts[line.golden->op] > 1;
    if (!is_shared) {
      out.push_back(line);
      continue;
    }
    for (const TensorFacts& tensor : ops.at(line.golden->op)->tensors) {
      Line& one = out.emplace_back(line);
      one.pair_count = 1;
      for (Reference* side : {&*one.golden, &*one.target}) {
        side->io = tensor.io;
        side->index = tensor.index;
      }
    }
  }
  return out;
}

// Returns the number of records of the pairs of a line, on the side of
// `reference`.
size_t CountRecords(const OpsByName& ops, const Reference& reference,
                    size_t pair_count) {
  const auto op = ops.find(reference.op);
  if (reference.call.has_value() || op == ops.end()) return pair_count;
  size_t count = 0;
  for (const TensorFacts& tensor : op->second->tensors) {
    const bool is_named =
        reference.io == Io::kUnspecified ||
        (reference.io == tensor.io && reference.index == tensor.index);
    if (is_named) count += tensor.record_count;
  }
  return count;
}

// Swaps the sides of a mapping. `target` was the golden run. A target tensor
// has one golden tensor: the first of several is used.
Mapping Turned(Mapping mapping, const RunFacts& golden,
               const RunFacts& target) {
  const OpsByName goldens = ByName(golden);
  TakenTargets targets;
  LeftTensors taken;
  taken.is_golden = true;
  taken.reason = kTaken;
  std::vector<Line> lines;
  for (Line& line : SplitShared(std::move(mapping.lines), target)) {
    std::swap(line.golden, line.target);
    std::swap(line.golden_view, line.target_view);
    const bool is_taken =
        line.target.has_value() && !targets.Take(*line.target);
    if (is_taken) {
      // Neither of two golden tensors exists in the target run.
      if (line.pair_count == 0) continue;
      line.target.reset();
      line.reason = kTaken;
      taken.count += line.pair_count;
      if (line.golden.has_value()) {
        taken.record_count +=
            CountRecords(goldens, *line.golden, line.pair_count);
      }
      mapping.pair_count -= line.pair_count;
      line.pair_count = 0;
      if (taken.examples.size() < kExamplesMax && line.golden.has_value()) {
        taken.examples.push_back(line.golden->op);
      }
    }
    lines.push_back(std::move(line));
  }
  mapping.lines = std::move(lines);
  for (LeftTensors& left : mapping.left) left.is_golden = !left.is_golden;
  if (taken.count > 0) mapping.left.push_back(std::move(taken));
  return mapping;
}

// Runs `match` with the run of `tool` as the target.
template <typename Matching>
absl::StatusOr<Mapping> MatchWithTarget(std::string_view tool,
                                        const Matching& match,
                                        const RunFacts& golden,
                                        const RunFacts& target,
                                        const MatchOptions& options) {
  if (target.source == tool || golden.source != tool) {
    return match(golden, target, options);
  }
  MSITD_ASSIGN_OR_RETURN(Mapping mapping, match(target, golden, options));
  return Turned(std::move(mapping), golden, target);
}

}  // namespace

std::string_view MatcherName(Matcher matcher) {
  for (const auto& [value, name] : kNames) {
    if (value == matcher) return name;
  }
  return "";
}

std::optional<Matcher> ParseMatcher(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

std::vector<Matcher> AllMatchers() {
  std::vector<Matcher> out;
  for (const auto& [value, name] : kNames) out.push_back(value);
  return out;
}

std::optional<Matcher> ChooseMatcher(std::string_view golden_source,
                                     std::string_view target_source,
                                     bool is_same_run) {
  if (is_same_run) {
    if (target_source == kGe) return Matcher::kGeSelf;
    return std::nullopt;
  }
  if (Are(golden_source, target_source, kFx, kGe)) return Matcher::kGeFx;
  if (golden_source == kGe && target_source == kGe) return Matcher::kGeGe;
  if (IsTorchBeside(golden_source, target_source, kMindie)) {
    return Matcher::kMindie;
  }
  if (IsTorchBeside(golden_source, target_source, kAtb) ||
      (golden_source == kAtb && target_source == kAtb)) {
    return Matcher::kTorchAtb;
  }
  if (golden_source == kMsit && target_source == kMsit) return Matcher::kTorch;
  if (IsEngine(golden_source) && IsEngine(target_source)) {
    return MatcherOfEngines(golden_source, target_source);
  }
  return std::nullopt;
}

bool IsEngine(std::string_view source) {
  return FindEngineTable(source) != nullptr;
}

bool IsWanted(std::string_view file) {
  return IsGraphFile(file) || IsMindieMapping(file) || IsModuleTree(file) ||
         file == kMsprobeConstructFile || file == kModuleTreeDocument;
}

absl::StatusOr<Mapping> Match(Matcher matcher, const RunFacts& golden,
                              const RunFacts& target,
                              const MatchOptions& options) {
  switch (matcher) {
    case Matcher::kGeFx:
      return MatchWithTarget(kGe, MatchGeWithFx, golden, target, options);
    case Matcher::kGeGe:
      return MatchGeWithGe(golden, target, options);
    case Matcher::kGeSelf:
      if (golden.run != target.run) break;
      return MatchConversions(target, options);
    case Matcher::kMindie:
      return MatchWithTarget(kMindie, MatchMindieWithTorch, golden, target,
                             options);
    case Matcher::kTorchAtb:
      if (golden.source != kAtb && target.source != kAtb) break;
      return MatchTorchWithAtb(golden, target, options);
    case Matcher::kTorch:
      if (!IsTorch(golden.source) || !IsTorch(target.source)) break;
      return MatchTorchWithTorch(golden, target);
    case Matcher::kMsprobe:
      return MatchMsprobe(golden, target, options);
    case Matcher::kHfVllm:
    case Matcher::kHfSglang:
    case Matcher::kHfMegatron:
    case Matcher::kEngines:
      return MatchEngines(golden, target, options.golden_ranks,
                          options.target_ranks);
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "{} is not for the runs {} and {}", MatcherName(matcher),
                    golden.run, target.run);
}

}  // namespace msitd::match
