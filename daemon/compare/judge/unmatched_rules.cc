// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/unmatched_rules.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

struct Preset {
  std::string_view name;
  std::span<const std::string_view> patterns;
};

// Tensors that only one run has if one run uses the fused attention of torch
// and the other uses plain code, in models of Hugging Face: the attention
// weights that are returned with the result, the mask, and the ops that are
// applied to the weights.
constexpr std::array<std::string_view, 6> kSdpaEager = {
    "*att*@output/1",    "*att*@output/2", "*@input/attention_mask",
    "*att*@input/*mask", "*att*dropout*",  "*att*softmax*"};

constexpr std::array<Preset, 1> kPresets = {{{"sdpa-eager", kSdpaEager}}};

absl::Status Invalid(size_t number, std::string_view problem) {
  return FieldInvalid(fmt::format("policy.allow_unmatched[{}]", number),
                      problem);
}

}  // namespace

absl::StatusOr<UnmatchedRules> UnmatchedRules::Create(
    std::span<const std::string> texts) {
  if (texts.size() > kUnmatchedRulesMax) {
    return Invalid(kUnmatchedRulesMax,
                   fmt::format("{} of them, at most {}", texts.size(),
                               kUnmatchedRulesMax));
  }
  UnmatchedRules out;
  out.texts_.assign(texts.begin(), texts.end());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string_view text = texts[i];
    std::span<const std::string_view> patterns(&text, 1);
    if (!text.empty() && text.front() == '@') {
      patterns = {};
      for (const Preset& preset : kPresets) {
        if (preset.name == text.substr(1)) patterns = preset.patterns;
      }
      if (patterns.empty()) {
        return Invalid(
            i, fmt::format("\"{}\" is no preset; @sdpa-eager is", text));
      }
    }
    for (const std::string_view pattern : patterns) {
      std::optional<TensorPattern> parsed = TensorPattern::Parse(pattern);
      if (!parsed.has_value()) {
        return Invalid(i, fmt::format("a pattern needs 1 to {} bytes; * stands "
                                      "for all ops",
                                      kOpBytesMax));
      }
      out.rules_.push_back({i, *std::move(parsed)});
    }
  }
  return out;
}

const std::string* UnmatchedRules::Find(std::string_view op, Io io,
                                        std::string_view index) const {
  for (const Rule& rule : rules_) {
    if (rule.pattern.Matches(op, io, index)) return &texts_[rule.text];
  }
  return nullptr;
}

void UnmatchedRules::Mark(std::string_view op, std::vector<bool>& marks) const {
  for (const Rule& rule : rules_) {
    if (!marks[rule.text]) marks[rule.text] = rule.pattern.MatchesOp(op);
  }
}

}  // namespace msitd::compare
