// SPDX-License-Identifier: Apache-2.0
#include "protos/base/record_kind.h"

#include <array>
#include <cstddef>

namespace msitd {
namespace {

constexpr std::array<std::string_view, kRecordKindCount> kNames = {
    "tensor", "number", "text",     "none",
    "dtype",  "other",  "document", "statistics"};

}  // namespace

std::string_view RecordKindName(RecordKind kind) {
  return IsValid(kind) ? kNames[static_cast<size_t>(kind)] : "unknown";
}

std::optional<RecordKind> ParseRecordKind(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<RecordKind>(i);
  }
  return std::nullopt;
}

}  // namespace msitd
