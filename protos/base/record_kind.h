// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace msitd {

// Kind of a record. The numbers are part of the chunk format, equal those of
// msitd.v1.RecordKind and are never reused. docs/format/chunk.md specifies the
// dtype, shape and texts of a record of each kind.
enum class RecordKind : uint8_t {
  kTensor = 0,
  kNumber = 1,  // A Python number: bool, int, float or complex.
  kText = 2,
  kNone = 3,
  kDType = 4,
  kOther = 5,     // A slice, a device, an enum: as Python's repr writes it.
  kDocument = 6,  // UTF-8 text of any length; the op is its name.
  // Statistics that another tool recorded for a tensor without keeping its
  // bytes; see tensor_statistics.h.
  kStatistics = 7,
};

inline constexpr int kRecordKindCount = 8;

constexpr bool IsValid(RecordKind kind) {
  return static_cast<int>(kind) < kRecordKindCount;
}

// True for an argument of an op that is not a tensor.
constexpr bool IsValue(RecordKind kind) {
  return kind >= RecordKind::kNumber && kind <= RecordKind::kOther;
}

// True for a record that has a value text.
constexpr bool HasValueText(RecordKind kind) {
  return IsValue(kind) || kind == RecordKind::kStatistics;
}

// True for a record that consists of its value text only. Its hash is that of
// the text.
constexpr bool IsTextOnly(RecordKind kind) {
  return HasValueText(kind) && kind != RecordKind::kNumber;
}

inline std::vector<RecordKind> EveryRecordKind() {
  std::vector<RecordKind> kinds;
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    kinds.push_back(static_cast<RecordKind>(kind));
  }
  return kinds;
}

// Returns "tensor", "number", "text", "none", "dtype", "other", "document" or
// "statistics"; "unknown" for an invalid number.
std::string_view RecordKindName(RecordKind kind);

// Inverse of RecordKindName; nothing for an unknown name.
std::optional<RecordKind> ParseRecordKind(std::string_view name);

}  // namespace msitd
