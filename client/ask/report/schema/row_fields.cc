// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/schema/row_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "client/ask/text/policy_text.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"

namespace msitd::ask {

const v1::CustomMetric* CustomMetricOf(const v1::ComparisonRow& row,
                                       std::string_view name) {
  for (const v1::CustomMetric& metric : row.custom_metrics()) {
    if (metric.metric() == name) return &metric;
  }
  return nullptr;
}

void AddCustomHeadings(const v1::Comparison& comparison,
                       std::vector<std::string>& headings) {
  for (const std::string& name : comparison.custom_metrics()) {
    headings.push_back(name);
    headings.push_back(name + ":text");
  }
}

void AddCustomCells(const v1::Comparison& comparison,
                    const v1::ComparisonRow& row, RealStyle style,
                    Cells& cells) {
  for (const std::string& name : comparison.custom_metrics()) {
    const v1::CustomMetric* metric = CustomMetricOf(row, name);
    Cell value;
    Cell text;
    if (metric != nullptr) {
      if (metric->has_value()) value = Real{metric->value(), style};
      text = metric->text();
    }
    cells.push_back(std::move(value));
    cells.push_back(std::move(text));
  }
}

double RoundDecimals(double value, int decimals) {
  return std::isfinite(value)
             ? std::strtod(fmt::format("{:.{}f}", value, decimals).c_str(),
                           nullptr)
             : value;
}

double MeanOf(const v1::ComparedTensor& tensor) {
  if (tensor.nan_count() > 0) return std::nan("");
  const auto max = static_cast<float>(tensor.max());
  const auto min = static_cast<float>(tensor.min());
  // Opposite infinities make NaN.
  if (std::isinf(max)) return std::isinf(min) ? max + min : max;
  if (std::isinf(min)) return min;
  const double sum =
      tensor.mean() * static_cast<double>(ElementCount(tensor.shape()));
  return std::isinf(static_cast<float>(sum)) ? std::copysign(HUGE_VAL, sum)
                                             : tensor.mean();
}

std::string PythonShape(const v1::ComparedTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape(), ", "));
}

std::string TorchDType(const v1::ComparedTensor& tensor) {
  return fmt::format("torch.{}", DTypeName(static_cast<DType>(tensor.dtype())));
}

std::string OriginText(const v1::ComparisonRow& row) {
  return row.origin() == v1::ORIGIN_UNSPECIFIED
             ? std::string()
             : WordOf(v1::Origin_Name(row.origin()));
}

}  // namespace msitd::ask
