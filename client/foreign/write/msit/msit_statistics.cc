// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msit/msit_statistics.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "client/ask/text/text.h"
#include "client/foreign/names/msit_names.h"
#include "client/foreign/write/writer/json_writer.h"
#include "client/foreign/write/writer/torch_file.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/rounding.h"
#include "protos/base/tensor_key.h"
#include "protos/base/tensor_statistics.h"

namespace msitd::write {
namespace {

std::string CrLfLine(const std::vector<std::string>& fields) {
  std::string line = ask::CsvLine(fields, /*guards_formulas=*/false);
  line.insert(line.size() - 1, "\r");
  return line;
}

std::string TupleText(const v1::Tensor& record) {
  return fmt::format("({}{})", fmt::join(record.shape(), ", "),
                     record.shape_size() == 1 ? "," : "");
}

// msit converts a tensor to float32 before it computes statistics.
std::string FloatText(double value) {
  return PythonFloat(RoundTo(DType::kFloat32, value));
}

std::vector<std::string> NumbersOf(const v1::Summary& summary) {
  if (summary.count() == 0) return {"", "", "", ""};
  if (summary.nan_count() > 0) return {"nan", "nan", "nan", "nan"};
  const double infinity = std::numeric_limits<double>::infinity();
  const bool has_plus = summary.positive_infinity_count() > 0;
  const bool has_minus = summary.negative_infinity_count() > 0;
  const double mean = has_plus && has_minus
                          ? std::numeric_limits<double>::quiet_NaN()
                      : has_plus  ? infinity
                      : has_minus ? -infinity
                                  : summary.mean();
  return {FloatText(summary.max()), FloatText(summary.min()), FloatText(mean),
          FloatText(has_plus || has_minus ? infinity : summary.l2_norm())};
}

std::vector<std::string> ForeignNumbers(const std::string& text) {
  std::vector<std::string> out;
  const auto statistics = ParseTensorStatistics(text);
  for (const std::string_view name : {"max", "min", "mean", "l2_norm"}) {
    out.emplace_back();
    if (!statistics.has_value()) continue;
    for (const TensorStatistic& one : *statistics) {
      if (one.name == name) out.back() = one.text;
    }
  }
  return out;
}

}  // namespace

std::string MsitStatisticsHeader() {
  return CrLfLine({"NodeName", "NodeType", "InputOutput", "Index", "DataType",
                   "Shape", "Max", "Min", "Mean", "L2Norm"});
}

std::string MsitStatisticsLine(const v1::Tensor& record, std::string_view stem,
                               std::string_view type) {
  const bool is_input = static_cast<Io>(record.io()) == Io::kInput;
  std::vector<std::string> fields = {
      record.op(),
      std::string(type),
      is_input ? "Input" : "Output",
      names::MsitRowIndex(stem),
      fmt::format("torch.{}",
                  TorchTypeName(static_cast<DType>(record.dtype()))),
      TupleText(record)};
  const bool is_foreign =
      static_cast<RecordKind>(record.kind()) == RecordKind::kStatistics;
  for (std::string& number : is_foreign ? ForeignNumbers(record.value())
                                        : NumbersOf(record.summary())) {
    fields.push_back(std::move(number));
  }
  return CrLfLine(fields);
}

}  // namespace msitd::write
