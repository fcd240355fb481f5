// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The text of a record of kind statistics, which is a JSON object such as
//
//   {"max": 1.5, "min": -2, "mean": "nan", "crc32": "0badcafe"}
//
// The values are scalars as written by the tool that computed them. A
// non-finite number is one of the strings nan, inf and -inf.
// docs/format/chunk.md explains the names. Standard library only.
namespace msitd {

// Texts that exceed one of these limits are not valid statistics.
inline constexpr size_t kTensorStatisticsMax = 32;
inline constexpr size_t kStatisticNameBytesMax = 32;
inline constexpr size_t kStatisticTextBytesMax = 64;

// Other names are also accepted: a lowercase letter, followed by lowercase
// letters, digits and `_`.
inline constexpr std::array<std::string_view, 10> kKnownStatistics = {
    "max",       "min",           "mean",          "l2_norm", "count",
    "nan_count", "pos_inf_count", "neg_inf_count", "crc32",   "xor"};

struct TensorStatistic {
  std::string_view name;
  // A number, `true` or `false`; or the contents of a string without its
  // quotes: printable ASCII without a quote or a backslash.
  std::string_view text;
  bool is_string = false;

  friend bool operator==(const TensorStatistic&,
                         const TensorStatistic&) = default;
};

// True for a statistic that is a checksum of the tensor's bytes: if two tensors
// of the same type and shape have different values, their bytes differ.
bool IsChecksum(std::string_view name);

// Returns the statistics in their order; nothing if `text` is not such an
// object, or has a name twice. The views refer to `text`.
std::optional<std::vector<TensorStatistic>> ParseTensorStatistics(
    std::string_view text);

// Inverse of ParseTensorStatistics, with one blank after each comma and colon.
std::string PrintTensorStatistics(std::span<const TensorStatistic> statistics);

// Returns the numeric value of the statistic; 1 and 0 for `true` and `false`.
// Nothing for any other string, and for a number beyond the range of double.
std::optional<double> NumberOf(const TensorStatistic& statistic);

}  // namespace msitd
