// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/statistic_text.h"

#include <fmt/format.h>

#include "protos/base/tensor_statistics.h"

namespace msitd::formats {

std::optional<std::string> StatisticText(std::string_view text) {
  // The C library prints the sign of a NaN.
  if (text == "-nan") text.remove_prefix(1);
  const bool is_named = text == "nan" || text == "inf" || text == "-inf";
  if (is_named) return std::string(text);
  const bool is_word = text == "true" || text == "false";
  const std::string object = fmt::format("{{\"value\": {}}}", text);
  const auto read = ParseTensorStatistics(object);
  const bool is_number = !is_word && read.has_value() && read->size() == 1 &&
                         !read->front().is_string;
  if (!is_number) return std::nullopt;
  return std::string(text);
}

}  // namespace msitd::formats
