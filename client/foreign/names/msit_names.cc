// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/msit_names.h"

#include <algorithm>

#include "protos/base/digits.h"

namespace msitd::names {
namespace {

bool IsAlphanumeric(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  });
}

}  // namespace

std::optional<MsitTensorName> ParseMsitStem(std::string_view stem) {
  MsitTensorName out;
  for (const Io io : {Io::kInput, Io::kOutput}) {
    const std::string_view word = IoName(io);
    if (!stem.starts_with(word)) continue;
    out.io = io;
    stem.remove_prefix(word.size());
    break;
  }
  if (out.io == Io::kUnspecified) return std::nullopt;
  bool is_in_name = false;
  while (!stem.empty()) {
    const size_t line = std::min(stem.find('_', 1), stem.size());
    const std::string_view part = stem.substr(1, line - 1);
    if (stem[0] != '_' || !IsAlphanumeric(part)) return std::nullopt;
    // Names may contain underscores themselves, such as attention_mask.
    const bool is_number = IsDigits(part);
    if (!out.index.empty()) out.index += is_in_name && !is_number ? '_' : '.';
    is_in_name = !is_number;
    out.index += part;
    stem.remove_prefix(line);
  }
  if (out.index.empty()) out.index += '0';
  return out;
}

std::string MsitStem(Io io, std::string_view index, bool is_only_output) {
  std::string out(IoName(io));
  if (index.empty() || is_only_output) return out;
  out += '_';
  out += index;
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

std::string MsitRowIndex(std::string_view stem) {
  const std::string_view last = stem.substr(stem.rfind('_') + 1);
  return last != stem && IsDigits(last) ? std::string(last) : "0";
}

}  // namespace msitd::names
