// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/layout_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/tensor_pattern.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

std::optional<int32_t> ParseInt(std::string_view text) {
  int32_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end) return std::nullopt;
  return out;
}

// Removes `suffix` from the end of `text`. Returns false if it is not there.
bool TakeEnd(std::string_view suffix, std::string_view& text) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Parses the numbers of "32:8:8". Returns false for any other text.
bool ParseSections(std::string_view text, v1::Layout& layout) {
  while (true) {
    const size_t colon = text.find(':');
    const auto section = ParseInt(text.substr(0, colon));
    if (!section) return false;
    layout.add_sections(*section);
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
  }
}

// Parses "concat(0)" and the other kinds. Returns false for any other text.
bool ParseKind(std::string_view text, v1::Layout& layout) {
  if (text == "sum") {
    layout.set_kind(v1::Layout::SUM);
    return true;
  }
  if (text == "replicated") {
    layout.set_kind(v1::Layout::REPLICATED);
    return true;
  }
  if (text == "fit") {
    layout.set_kind(v1::Layout::FIT);
    return true;
  }
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return false;
  const std::string_view kind = text.substr(0, open);
  std::string_view argument = text.substr(open + 1, text.size() - open - 2);
  const size_t comma = argument.find(',');
  if (comma != std::string_view::npos &&
      (kind != "concat" ||
       !ParseSections(argument.substr(comma + 1), layout))) {
    return false;
  }
  const auto number = ParseInt(argument.substr(0, comma));
  if (!number) return false;
  if (kind == "concat" || kind == "zigzag") {
    layout.set_kind(kind == "concat" ? v1::Layout::CONCAT : v1::Layout::ZIGZAG);
    layout.set_dim(*number);
    return true;
  }
  if (kind == "pick") {
    layout.set_kind(v1::Layout::PICK);
    layout.set_rank(*number);
    return true;
  }
  return false;
}

}  // namespace

void AddLayoutFlags(CLI::App& verb, LayoutFlags& flags) {
  constexpr char kType[] =
      "'PATTERN[@IO[/INDEX]]=KIND[/RANKS][ unless placed]'";
  AddTexts(
      verb, "--golden-layout", flags.golden,
      "How tensors are divided among the ranks of the golden run: concat(DIM), "
      "concat(DIM,A:B:...) for fused projections, zigzag(DIM), sum, "
      "replicated, pick(RANK), or fit to derive it from the sizes of both "
      "runs. RANKS: size of each group of ranks; default: all ranks. `unless "
      "placed` excludes tensors with a recorded placement, such as DTensors. "
      "Repeatable; the first one that matches an op applies")
      ->type_name(kType);
  AddTexts(verb, "--target-layout", flags.target, "The same for the target run")
      ->type_name(kType);
}

ask::Outcome AddLayouts(const LayoutFlags& flags, v1::Matching& matching) {
  for (const std::string& text : flags.golden) {
    const auto layout = ParseLayout(text);
    if (!layout.ok()) {
      return ask::UsageError(
          fmt::format("--golden-layout: {}", Message(layout.status())));
    }
    *matching.add_golden_layouts() = *layout;
  }
  for (const std::string& text : flags.target) {
    const auto layout = ParseLayout(text);
    if (!layout.ok()) {
      return ask::UsageError(
          fmt::format("--target-layout: {}", Message(layout.status())));
    }
    *matching.add_target_layouts() = *layout;
  }
  return {};
}

absl::StatusOr<v1::Layout> ParseLayout(std::string_view text) {
  const auto bad = [text] {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not PATTERN[@IO[/INDEX]]=KIND[/RANKS][ unless "
                      "placed] with concat(DIM[,A:B:...]), zigzag(DIM), sum, "
                      "replicated, pick(RANK) or fit",
                      text);
  };
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return bad();
  v1::Layout layout;
  std::string_view kind = text.substr(equals + 1);
  layout.set_unless_placed(TakeEnd(" unless placed", kind));
  if (const size_t slash = kind.find('/'); slash != std::string_view::npos) {
    const auto group_size = ParseInt(kind.substr(slash + 1));
    if (!group_size || *group_size < 1) return bad();
    layout.set_group_size(*group_size);
    kind = kind.substr(0, slash);
  }
  const TensorPattern pattern = ParseTensorPattern(text.substr(0, equals));
  if (pattern.op_pattern.empty() || !ParseKind(kind, layout)) return bad();
  SetTensorPattern(pattern, layout);
  return layout;
}

}  // namespace msitd::msitctl
