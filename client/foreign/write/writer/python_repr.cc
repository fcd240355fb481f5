// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/python_repr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace msitd::write {
namespace {

constexpr size_t kSliceItemsMax = 3;

// Returns the text between `head` and `tail`.
std::optional<std::string_view> Between(std::string_view text,
                                        std::string_view head,
                                        std::string_view tail) {
  if (!text.starts_with(head) || !text.ends_with(tail) ||
      text.size() < head.size() + tail.size()) {
    return std::nullopt;
  }
  return text.substr(head.size(), text.size() - head.size() - tail.size());
}

}  // namespace

std::optional<PythonSequence> SequenceIn(std::string_view text) {
  if (const auto items = Between(text, "slice(", ")")) {
    auto list = ParsePythonLiteral(fmt::format("[{}]", *items));
    if (!list || list->items.empty() || list->items.size() > kSliceItemsMax) {
      return std::nullopt;
    }
    return PythonSequence{true, *std::move(list)};
  }
  if (const auto size = Between(text, "torch.Size(", ")")) {
    auto list = ParsePythonLiteral(*size);
    if (!list || list->kind != PythonLiteral::Kind::kList) return std::nullopt;
    return PythonSequence{false, *std::move(list)};
  }
  return std::nullopt;
}

std::optional<std::string> DeviceIn(std::string_view text) {
  auto type = Between(text, "device(type='", ")");
  if (!type) return std::nullopt;
  const size_t quote = type->find('\'');
  if (quote == type->npos) return std::nullopt;
  std::string name(type->substr(0, quote));
  type->remove_prefix(quote + 1);
  if (const auto index = Between(*type, ", index=", "")) {
    name.append(":").append(*index);
  } else if (!type->empty()) {
    return std::nullopt;
  }
  return name;
}

std::optional<std::string_view> MemoryFormatIn(std::string_view text) {
  constexpr std::array<std::string_view, 4> kFormats = {
      "contiguous_format", "channels_last", "channels_last_3d",
      "preserve_format"};
  const auto name = Between(text, "torch.", "");
  const bool is_format = name && std::find(kFormats.begin(), kFormats.end(),
                                           *name) != kFormats.end();
  return is_format ? name : std::nullopt;
}

}  // namespace msitd::write
