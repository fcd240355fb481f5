// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/view_flags.h"

#include <fmt/format.h>

#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/tensor_pattern.h"
#include "protos/status/status.h"

namespace msitd::msitctl {

void AddViewFlags(CLI::App& verb, ViewFlags& flags) {
  constexpr char kType[] = "'PATTERN[@IO[/INDEX]]=VIEW[ as OP]'";
  AddTexts(
      verb, "--golden-view", flags.golden,
      "Views of tensors of the golden run, which apply before they are "
      "compared. VIEW is one or more of permute(D,...), transpose(D,D), "
      "reshape(N,...), flatten, slice(D,A:B), split(D,A:B:...,K) for part K of "
      "a fused tensor, rows(A:B,...), heads(N), rope_pairs(D), "
      "concat(D,LEAF,...), sum(LEAF,...), "
      "dequantize(SCALE[,ZERO_POINT][,B:B:...]) and, as the last one, "
      "any_order(D) for rows in any order, joined by `.`; LEAF is "
      "another tensor, OP, @IO/INDEX or OP@IO/INDEX. ` as OP` compares the "
      "view under another name, in addition to the tensor; each `*` in OP "
      "stands for the match of a `*` of PATTERN. Repeatable: all "
      "that match a tensor apply, up to the first one without ` as OP`, which "
      "replaces the tensor")
      ->type_name(kType);
  AddTexts(verb, "--target-view", flags.target, "The same for the target run")
      ->type_name(kType);
}

ask::Outcome AddViews(const ViewFlags& flags, v1::Matching& matching) {
  for (const std::string& text : flags.golden) {
    const auto view = ParseViewRule(text);
    if (!view.ok()) {
      return ask::UsageError(
          fmt::format("--golden-view: {}", Message(view.status())));
    }
    *matching.add_golden_views() = *view;
  }
  for (const std::string& text : flags.target) {
    const auto view = ParseViewRule(text);
    if (!view.ok()) {
      return ask::UsageError(
          fmt::format("--target-view: {}", Message(view.status())));
    }
    *matching.add_target_views() = *view;
  }
  return {};
}

absl::StatusOr<v1::View> ParseViewRule(std::string_view text) {
  constexpr std::string_view kAs = " as ";
  const size_t equals = text.rfind('=');
  const TensorPattern pattern = ParseTensorPattern(
      equals == std::string_view::npos ? "" : text.substr(0, equals));
  std::string_view view =
      equals == std::string_view::npos ? "" : text.substr(equals + 1);
  v1::View out;
  if (const size_t as = view.rfind(kAs); as != std::string_view::npos) {
    out.set_as_op(std::string(view.substr(as + kAs.size())));
    view = view.substr(0, as);
    if (out.as_op().empty()) view = "";
  }
  if (pattern.op_pattern.empty() || view.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not PATTERN[@IO[/INDEX]]=VIEW[ as OP]", text);
  }
  SetTensorPattern(pattern, out);
  out.set_view(std::string(view));
  return out;
}

}  // namespace msitd::msitctl
