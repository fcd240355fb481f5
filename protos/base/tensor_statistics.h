// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The text of a record of kind statistics: a JSON object such as
//
//   {"max": 1.5, "min": -2, "mean": "nan", "crc32": "0badcafe"}
//
// The values are scalars as the tool that took them wrote them. A number that
// is not finite is one of the strings nan, inf and -inf. docs/format/chunk.md
// says what the names mean. Standard library only.
namespace msitd {

// Texts beyond one of these are no statistics.
inline constexpr size_t kTensorStatisticsMax = 32;
inline constexpr size_t kStatisticNameBytesMax = 32;
inline constexpr size_t kStatisticTextBytesMax = 64;

// Other names may come too: a small letter, then small letters, digits and `_`.
inline constexpr std::array<std::string_view, 10> kKnownStatistics = {
    "max",       "min",           "mean",          "l2_norm", "count",
    "nan_count", "pos_inf_count", "neg_inf_count", "crc32",   "xor"};

struct TensorStatistic {
  std::string_view name;
  // A number, `true` or `false`; or what is between the quotes of a string:
  // printable ASCII without a quote or a backslash.
  std::string_view text;
  bool is_string = false;

  friend bool operator==(const TensorStatistic&,
                         const TensorStatistic&) = default;
};

// True for a name whose values are of the bytes of the tensor: where two
// tensors of one type and shape have different ones, the bytes differ.
bool IsChecksum(std::string_view name);

// Returns the statistics in their order; nothing if `text` is no such object,
// or a name is in it twice. The views point into `text`.
std::optional<std::vector<TensorStatistic>> ParseTensorStatistics(
    std::string_view text);

// The inverse of ParseTensorStatistics, with one blank behind each comma and
// colon.
std::string PrintTensorStatistics(std::span<const TensorStatistic> statistics);

// Returns the number that the statistic is: 1 and 0 for `true` and `false`.
// Nothing for any other string, and for a number beyond the range of double.
std::optional<double> NumberOf(const TensorStatistic& statistic);

}  // namespace msitd
