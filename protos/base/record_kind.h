// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msitd {

// What a record has. The numbers are part of the chunk format and equal those
// of msitd.v1.RecordKind; they are never reused. docs/format/chunk.md says
// which dtype, shape and texts a record of each kind has.
enum class RecordKind : uint8_t {
  kTensor = 0,
  kNumber = 1,  // Of Python: bool, int, float or complex.
  kText = 2,
  kNone = 3,
  kDType = 4,
  kOther = 5,     // A slice, a device, an enum: as Python's repr writes it.
  kDocument = 6,  // UTF-8 text of any length; the op is its name.
  // What another tool found out about a tensor whose bytes it did not keep; see
  // tensor_statistics.h.
  kStatistics = 7,
};

inline constexpr int kRecordKindCount = 8;

constexpr bool IsValid(RecordKind kind) {
  return static_cast<int>(kind) < kRecordKindCount;
}

// True for an argument of an op that is no tensor.
constexpr bool IsValue(RecordKind kind) {
  return kind >= RecordKind::kNumber && kind <= RecordKind::kOther;
}

// True for a record that has a value text.
constexpr bool HasValueText(RecordKind kind) {
  return IsValue(kind) || kind == RecordKind::kStatistics;
}

// True for a record that is nothing but its value text: its hash is that of the
// text.
constexpr bool IsTextOnly(RecordKind kind) {
  return HasValueText(kind) && kind != RecordKind::kNumber;
}

// Returns "tensor", "number", "text", "none", "dtype", "other", "document" or
// "statistics"; "unknown" for another number.
std::string_view RecordKindName(RecordKind kind);

// The inverse of RecordKindName; nothing for an unknown name.
std::optional<RecordKind> ParseRecordKind(std::string_view name);

}  // namespace msitd
