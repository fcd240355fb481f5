// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

namespace msitd::match {
namespace {

constexpr std::string_view kRootDot = "root.";

// The maximum of a number in Layout.sections.
constexpr int64_t kSectionMax = 65536;

// The dimensions along which the tensors of a module are cut, if they are.
struct Cuts {
  std::optional<int> input;
  std::optional<int> output;
  std::optional<int> weight;
  bool has_sum = false;
};

Cuts CutsOf(EngineShards shards) {
  switch (shards) {
    case EngineShards::kColumns:
    case EngineShards::kParts:
      return {.input = {}, .output = -1, .weight = 0};
    case EngineShards::kRows:
      return {.input = -1, .output = {}, .weight = -1};
    case EngineShards::kRowsAndSum:
      return {.input = -1, .output = {}, .weight = -1, .has_sum = true};
    case EngineShards::kVocabulary:
      return {.input = {}, .output = {}, .weight = 0};
    case EngineShards::kSum:
      return {.input = {}, .output = {}, .weight = {}, .has_sum = true};
    case EngineShards::kNone:
      break;
  }
  return {};
}

// Returns the dimension along which a tensor of a module is cut, if it is.
std::optional<int> CutOf(const EngineModuleRule& rule, Io io,
                         std::string_view index) {
  const auto found = std::find_if(
      rule.cuts.begin(), rule.cuts.end(),
      [&](const EngineCut& cut) { return cut.io == io && cut.index == index; });
  if (found != rule.cuts.end()) return found->dim;
  const Cuts cuts = CutsOf(rule.shards);
  return io == Io::kInput    ? cuts.input
         : io == Io::kOutput ? cuts.output
         : io == Io::kWeight ? cuts.weight
                             : std::nullopt;
}

// Collects layouts for modules of the same name.
class LayoutBuilder {
 public:
  LayoutBuilder(int group_size, bool unless_placed,
                std::vector<ShardLayout>& out)
      : group_size_(group_size), unless_placed_(unless_placed), out_(out) {}

  // `shares_heads`: several ranks have the same head of keys and values.
  void Add(const std::string& pattern, const EngineModuleRule& rule,
           std::vector<int> sections, bool shares_heads) {
    for (const auto* const cuts : {&rule.cuts, &rule.head_cuts}) {
      // Sizes show then what each rank has.
      if (cuts == &rule.head_cuts && shares_heads) continue;
      for (const EngineCut& cut : *cuts) {
        Concat(pattern, cut.io, cut.index, cut.dim, cut.sections);
      }
    }
    const Cuts cuts = CutsOf(rule.shards);
    if (cuts.input.has_value()) {
      Concat(pattern, Io::kInput, {}, *cuts.input, {});
    }
    if (cuts.output.has_value()) {
      Concat(pattern, Io::kOutput, {}, *cuts.output, sections);
    }
    if (cuts.has_sum) {
      out_.push_back({.op_pattern = pattern,
                      .io = Io::kOutput,
                      .index = {},
                      .kind = ShardLayout::Kind::kSum,
                      .group_size = group_size_,
                      .unless_placed = unless_placed_});
    }
    if (cuts.weight.has_value()) {
      // A bias of a row-parallel module is a copy.
      if (*cuts.weight == -1) Copies(pattern, Io::kWeight, "bias");
      Concat(pattern, Io::kWeight, {}, *cuts.weight, sections);
    }
  }

  void Copies(const std::string& pattern, Io io,
              std::optional<std::string> index) {
    out_.push_back({.op_pattern = pattern,
                    .io = io,
                    .index = std::move(index),
                    .group_size = group_size_,
                    .unless_placed = unless_placed_});
  }

 private:
  void Concat(const std::string& pattern, Io io,
              std::optional<std::string> index, int dim,
              std::vector<int> sections) {
    out_.push_back({.op_pattern = pattern,
                    .io = io,
                    .index = std::move(index),
                    .kind = ShardLayout::Kind::kConcat,
                    .dim = dim,
                    .sections = std::move(sections),
                    .group_size = group_size_,
                    .unless_placed = unless_placed_});
  }

  const int group_size_;
  const bool unless_placed_;
  std::vector<ShardLayout>& out_;
};

}  // namespace

std::optional<int64_t> SizeOf(std::string_view text, const EngineSizes& sizes) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return number;
  const auto found = sizes.find(text);
  if (found == sizes.end()) return std::nullopt;
  return found->second;
}

std::vector<int64_t> PartSizes(const EngineModuleRule& rule,
                               const EngineSizes& sizes) {
  std::vector<int64_t> out;
  for (const EnginePart& part : rule.parts) {
    const auto size = SizeOf(part.size, sizes);
    if (!size.has_value() || *size < 1) return {};
    out.push_back(*size);
  }
  return out;
}

std::vector<int64_t> HeldSizes(const EngineModuleRule& rule,
                               const EngineSizes& sizes, int ranks) {
  std::vector<int64_t> out = PartSizes(rule, sizes);
  const int64_t groups = SizeOf("groups", sizes).value_or(0);
  if (groups == 0 || ranks <= groups || ranks % groups != 0) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    if (rule.parts[i].size == "kv") out[i] *= ranks / groups;
  }
  return out;
}

std::vector<int64_t> ShapeOfLayer(const EngineModuleRule* rule, Io io,
                                  std::string_view index,
                                  std::vector<int64_t> shape, int ranks) {
  if (rule == nullptr || ranks == 1 || shape.empty()) return shape;
  const auto dim = CutOf(*rule, io, index);
  // A bias of a row-parallel module is a copy.
  const bool is_copy = io == Io::kWeight && dim == -1 && shape.size() < 2;
  if (!dim.has_value() || is_copy) return shape;
  const auto count = static_cast<int>(shape.size());
  const int at = *dim < 0 ? *dim + count : *dim;
  if (at < 0 || at >= count) return shape;
  int64_t& length = shape[static_cast<size_t>(at)];
  if (__builtin_mul_overflow(length, ranks, &length)) length = 0;
  return shape;
}

std::vector<ShardLayout> LayoutsOf(const EngineRun& run,
                                   const EngineSizes& sizes, int ranks,
                                   int world_size, bool fits_others) {
  std::vector<ShardLayout> out;
  if (run.table == nullptr || ranks < 2 || world_size % ranks != 0) return out;
  LayoutBuilder builder(ranks == world_size ? 0 : ranks, run.table->is_placed,
                        out);
  // Modules of one name nearly always have one rule. The names of layers are
  // too many to be listed.
  std::map<std::string, const EngineModuleRule*> by_name;
  for (const auto& [op, module] : run.modules) {
    if (!op.starts_with(kRootDot)) continue;
    const std::string path =
        ToCommonPath(*run.table, std::string_view(op).substr(kRootDot.size()));
    const EngineModuleRule* const rule =
        FindModuleRule(*run.table, path, module.module_class, run.version);
    if (rule == nullptr ||
        (rule->shards == EngineShards::kNone && rule->cuts.empty())) {
      continue;
    }
    const size_t dot = op.rfind('.');
    const size_t above = op.rfind('.', dot - 1);
    // Modules of one name differ by the one above them: the parts of a shared
    // expert, and `attn` in `attn`.
    const bool needs_above =
        rule->shards == EngineShards::kRowsAndSum || !rule->cuts.empty();
    const std::string name = needs_above && above != std::string::npos
                                 ? "*" + op.substr(above)
                                 : "*" + op.substr(dot);
    by_name.emplace(name, rule);
  }
  // Longer patterns first, as the first one that fits is used.
  std::vector<std::pair<std::string, const EngineModuleRule*>> sorted(
      by_name.begin(), by_name.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.first.size() > b.first.size();
                   });
  const bool shares_heads = SizeOf("groups", sizes).value_or(ranks) < ranks;
  for (const auto& [pattern, rule] : sorted) {
    std::vector<int> sections;
    if (rule->shards == EngineShards::kParts && rule->groups.empty()) {
      std::vector<int64_t> held = HeldSizes(*rule, sizes, ranks);
      if (held.empty()) continue;
      int64_t divisor = 0;
      for (const int64_t size : held) divisor = std::gcd(divisor, size);
      for (const int64_t size : held) {
        sections.push_back(
            static_cast<int>(std::min(size / divisor, kSectionMax + 1)));
      }
      // Such shards cannot be described, so their rows show other shapes.
      if (*std::max_element(sections.begin(), sections.end()) > kSectionMax) {
        continue;
      }
    }
    builder.Add(pattern, *rule, std::move(sections), shares_heads);
  }
  if (out.empty()) return out;
  // Tensors of the other engine have no counterpart, or are copies. Where hooks
  // record placements, those of copies are known.
  if (fits_others || !run.table->is_placed) {
    builder.Copies("*", Io::kUnspecified, std::nullopt);
    out.back().unless_placed = true;
    if (fits_others) out.back().kind = ShardLayout::Kind::kFit;
  }
  return out;
}

}  // namespace msitd::match
