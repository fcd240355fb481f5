// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/layout_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "client/ctl/selection.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

std::optional<int32_t> ParseInt(std::string_view text) {
  int32_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end) return std::nullopt;
  return out;
}

// "concat(0)" and so on. False if it is none of them.
bool ParseKind(std::string_view text, v1::Layout& layout) {
  if (text == "sum") {
    layout.set_kind(v1::Layout::SUM);
    return true;
  }
  if (text == "replicated") {
    layout.set_kind(v1::Layout::REPLICATED);
    return true;
  }
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return false;
  const auto number = ParseInt(text.substr(open + 1, text.size() - open - 2));
  if (!number) return false;
  if (text.substr(0, open) == "concat") {
    layout.set_kind(v1::Layout::CONCAT);
    layout.set_dim(*number);
    return true;
  }
  if (text.substr(0, open) == "pick") {
    layout.set_kind(v1::Layout::PICK);
    layout.set_rank(*number);
    return true;
  }
  return false;
}

// Takes "@output/0" off the end of a pattern.
void TakeIo(std::string_view& pattern, v1::Layout& layout) {
  const size_t at = pattern.rfind('@');
  if (at == std::string_view::npos) return;
  const std::string_view place = pattern.substr(at + 1);
  const size_t slash = place.find('/');
  const std::optional<Io> io = ParseIo(place.substr(0, slash));
  if (!io.has_value()) return;
  layout.set_io(static_cast<v1::Io>(*io));
  if (slash != std::string_view::npos) {
    layout.set_index(std::string(place.substr(slash + 1)));
  }
  pattern = pattern.substr(0, at);
}

}  // namespace

void AddLayoutFlags(CLI::App& verb, LayoutFlags& flags) {
  constexpr char kType[] = "'PATTERN[@IO[/INDEX]]=KIND[/RANKS]'";
  AddTexts(verb, "--golden-layout", flags.golden,
           "How ranks of the golden run hold tensors: concat(DIM), sum, "
           "replicated or pick(RANK), by all ranks or groups of so many; "
           "repeatable, the first that fits an op counts")
      ->type_name(kType);
  AddTexts(verb, "--target-layout", flags.target, "The same for the target run")
      ->type_name(kType);
}

Outcome AddLayouts(const LayoutFlags& flags, v1::Matching& matching) {
  for (const std::string& text : flags.golden) {
    const auto layout = ParseLayout(text);
    if (!layout.ok()) {
      return UsageError(
          fmt::format("--golden-layout: {}", Message(layout.status())));
    }
    *matching.add_golden_layouts() = *layout;
  }
  for (const std::string& text : flags.target) {
    const auto layout = ParseLayout(text);
    if (!layout.ok()) {
      return UsageError(
          fmt::format("--target-layout: {}", Message(layout.status())));
    }
    *matching.add_target_layouts() = *layout;
  }
  return {};
}

absl::StatusOr<v1::Layout> ParseLayout(std::string_view text) {
  const auto bad = [text] {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not PATTERN[@IO[/INDEX]]=KIND[/RANKS] with "
                      "concat(DIM), sum, replicated or pick(RANK)",
                      text);
  };
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return bad();
  v1::Layout layout;
  std::string_view kind = text.substr(equals + 1);
  if (const size_t slash = kind.find('/'); slash != std::string_view::npos) {
    const auto group_size = ParseInt(kind.substr(slash + 1));
    if (!group_size || *group_size < 1) return bad();
    layout.set_group_size(*group_size);
    kind = kind.substr(0, slash);
  }
  std::string_view pattern = text.substr(0, equals);
  TakeIo(pattern, layout);
  if (pattern.empty() || !ParseKind(kind, layout)) return bad();
  layout.set_op_pattern(std::string(pattern));
  return layout;
}

}  // namespace msitd::ctl
