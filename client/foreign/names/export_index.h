// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// The index of an export of msitd: a file with a line of JSON for each record,
// which names the file that contains the record. Written by
// client/foreign/write, read by client/foreign/trees.
namespace msitd::names {

inline constexpr std::string_view kExportIndex = "tensors.jsonl";

// The keys of a line. Keys without a value are omitted.
inline constexpr std::string_view kIndexFile = "file";      // Relative.
inline constexpr std::string_view kIndexMember = "member";  // In an archive.
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
// Ascending in the order of execution of a rank.
inline constexpr std::string_view kIndexSequence = "sequence";
// `unknown` if `sequence` is not the order of execution (order_label.h).
inline constexpr std::string_view kIndexOrder = "order";
inline constexpr std::string_view kIndexProblem = "problem";

}  // namespace msitd::names
