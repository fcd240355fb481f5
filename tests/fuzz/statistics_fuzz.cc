// SPDX-License-Identifier: Apache-2.0
// Texts of statistics. A text that can be parsed is within its bounds. It is
// printed as a text with the same meaning.
#include "protos/base/check.h"
#include "protos/base/tensor_statistics.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  return {"{}",
          "{\"max\": 1.5, \"min\": -2, \"mean\": \"nan\", \"crc32\": "
          "\"0badcafe\"}",
          " { \"l2_norm\" : 1e-300 ,\n\"xor\":9223372036854775807, "
          "\"is_sparse\": true, \"pos_inf_count\": 0 } "};
}

}  // namespace msitd::fuzz

namespace msitd {
namespace {

void Try(std::string_view text) {
  const auto parsed = ParseTensorStatistics(text);
  if (!parsed.has_value()) return;
  MSITD_CHECK(parsed->size() <= kTensorStatisticsMax);
  for (const TensorStatistic& one : *parsed) {
    MSITD_CHECK(!one.name.empty() && one.name.size() <= kStatisticNameBytesMax);
    MSITD_CHECK(one.text.size() <= kStatisticTextBytesMax);
    MSITD_CHECK(one.is_string || !one.text.empty());
    NumberOf(one);
  }
  const std::string printed = PrintTensorStatistics(*parsed);
  const auto again = ParseTensorStatistics(printed);
  MSITD_CHECK(again.has_value() && *again == *parsed);
}

}  // namespace
}  // namespace msitd

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
