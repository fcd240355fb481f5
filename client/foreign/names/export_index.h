// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// The index of an export of msitd: a file with a line of JSON for each record,
// which says in which file the record is. Written by client/foreign/write, read
// by client/foreign/trees.
namespace msitd::names {

inline constexpr std::string_view kExportIndex = "tensors.jsonl";

// Keys of a line. A key of a record that has nothing to say is left out.
inline constexpr std::string_view kIndexFile = "file";      // Relative.
inline constexpr std::string_view kIndexMember = "member";  // Of an archive.
inline constexpr std::string_view kIndexRank = "rank";
inline constexpr std::string_view kIndexDevice = "device";
inline constexpr std::string_view kIndexToken = "token";
inline constexpr std::string_view kIndexOp = "op";
inline constexpr std::string_view kIndexCall = "call";
inline constexpr std::string_view kIndexIo = "io";
inline constexpr std::string_view kIndexIndex = "index";
inline constexpr std::string_view kIndexKind = "kind";
inline constexpr std::string_view kIndexDType = "dtype";
inline constexpr std::string_view kIndexShape = "shape";
inline constexpr std::string_view kIndexValue = "value";
inline constexpr std::string_view kIndexRequiresGrad = "requires_grad";
// The order of execution in a rank: ascending.
inline constexpr std::string_view kIndexSequence = "sequence";
// Value `unknown` if `sequence` is not the order of execution (order_label.h).
inline constexpr std::string_view kIndexOrder = "order";
inline constexpr std::string_view kIndexProblem = "problem";

}  // namespace msitd::names
