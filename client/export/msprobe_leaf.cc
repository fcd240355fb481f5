// SPDX-License-Identifier: Apache-2.0
#include "client/export/msprobe_leaf.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/export/torch_file.h"
#include "protos/base/rounding.h"
#include "protos/base/tensor_statistics.h"

namespace msitd::exports {
namespace {

// Extremes beyond are not exact as doubles.
constexpr double kExactMax = 9007199254740992.0;

void WriteStatistic(const TensorStatistic& statistic, JsonWriter& out) {
  if (!statistic.is_string) {
    out.Raw(statistic.text);
  } else if (statistic.text == "nan") {
    out.Raw("NaN");
  } else if (statistic.text == "inf") {
    out.Raw("Infinity");
  } else if (statistic.text == "-inf") {
    out.Raw("-Infinity");
  } else {
    out.Text(statistic.text);
  }
}

// What another tool found out, as it wrote it.
void WriteForeignStatistics(const std::string& text, JsonWriter& out,
                            std::string& checksum) {
  const auto statistics = ParseTensorStatistics(text);
  for (const auto& [theirs, ours] :
       {std::pair{"Max", "max"}, std::pair{"Min", "min"},
        std::pair{"Mean", "mean"}, std::pair{"Norm", "l2_norm"}}) {
    out.Key(theirs);
    const TensorStatistic* found = nullptr;
    if (statistics.has_value()) {
      for (const TensorStatistic& one : *statistics) {
        if (one.name == ours) found = &one;
        if (IsChecksum(one.name)) checksum = one.text;
      }
    }
    if (found == nullptr) {
      out.Null();
    } else {
      WriteStatistic(*found, out);
    }
  }
}

struct Statistics {
  std::optional<double> max, min, mean, norm;
};

// msprobe takes them in the type of the tensor, and a NaN or an infinity in it
// shows in all of them.
Statistics StatisticsOf(const MsprobeRow& row) {
  const DTypeInfo& info = InfoOf(row.dtype);
  const v1::Summary& summary = row.summary;
  const bool is_small_float = info.kind == DTypeKind::kFloat && info.bits <= 8;
  Statistics out;
  if (summary.count() == 0 || is_small_float ||
      info.kind == DTypeKind::kComplex) {
    return out;
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const bool has_nan = summary.nan_count() > 0;
  const bool has_plus = summary.positive_infinity_count() > 0;
  const bool has_minus = summary.negative_infinity_count() > 0;
  out.max = has_nan ? nan : summary.max();
  out.min = has_nan ? nan : summary.min();
  if (info.kind == DTypeKind::kBool) return out;
  if (row.shape.empty()) {
    out.mean = out.norm = out.max;
    return out;
  }
  const bool has_mean = row.dtype == DType::kFloat16 ||
                        row.dtype == DType::kBfloat16 ||
                        row.dtype == DType::kFloat32;
  if (!has_mean) return out;
  out.mean = has_nan || (has_plus && has_minus) ? nan
             : has_plus                         ? infinity
             : has_minus                        ? -infinity
                                                : summary.mean();
  out.norm = has_nan                 ? nan
             : has_plus || has_minus ? infinity
                                     : summary.l2_norm();
  out.mean = RoundTo(row.dtype, *out.mean);
  out.norm = RoundTo(row.dtype, *out.norm);
  return out;
}

void WriteNumber(DType dtype, std::optional<double> value, JsonWriter& out) {
  const DTypeKind kind = InfoOf(dtype).kind;
  if (!value.has_value()) {
    out.Null();
  } else if (kind == DTypeKind::kBool) {
    out.Bool(*value != 0);
  } else if (kind == DTypeKind::kInteger && std::abs(*value) < kExactMax) {
    out.Number(static_cast<int64_t>(*value));
  } else {
    out.Number(*value);
  }
}

void WriteTensor(const MsprobeRow& row, JsonWriter& out) {
  out.BeginObject().Field("type", "torch.Tensor");
  out.Field("dtype", "torch." + std::string(TorchTypeName(row.dtype)));
  out.Key("shape").BeginList();
  for (const int64_t extent : row.shape) out.Number(extent);
  out.EndList();
  std::string checksum;
  if (row.kind == RecordKind::kStatistics) {
    WriteForeignStatistics(row.text, out, checksum);
  } else {
    const Statistics statistics = StatisticsOf(row);
    WriteNumber(row.dtype, statistics.max, out.Key("Max"));
    WriteNumber(row.dtype, statistics.min, out.Key("Min"));
    WriteNumber(row.dtype, statistics.mean, out.Key("Mean"));
    WriteNumber(row.dtype, statistics.norm, out.Key("Norm"));
  }
  out.Key("requires_grad").Bool(row.requires_grad);
  if (!row.file.empty()) out.Field("data_name", row.file);
  if (!checksum.empty()) out.Field("md5", checksum);
  out.EndObject();
}

// Reads what Python's repr writes of an int or a float. Nothing for any other
// text, which a producer may have sent.
std::optional<TensorStatistic> NumberTextOf(std::string_view text) {
  if (text == "nan" || text == "inf" || text == "-inf") {
    return TensorStatistic{"", text, true};
  }
  const bool is_number =
      text.find_first_not_of("-+.e0123456789") == text.npos &&
      nlohmann::json::accept(text);
  if (!is_number) return std::nullopt;
  return TensorStatistic{"", text, false};
}

void WriteNumberValue(const MsprobeRow& row, JsonWriter& out) {
  const DTypeKind kind = InfoOf(row.dtype).kind;
  if (kind == DTypeKind::kBool) {
    out.Field("type", "bool").Key("value").Bool(row.text == "True");
  } else if (const auto number = NumberTextOf(row.text);
             number.has_value() && kind != DTypeKind::kComplex) {
    const bool is_integer = kind == DTypeKind::kInteger;
    out.Field("type", is_integer ? "int" : "float").Key("value");
    WriteStatistic(*number, out);
  } else {
    const bool is_complex = kind == DTypeKind::kComplex;
    out.Field("type", is_complex ? "complex" : "str").Field("value", row.text);
  }
}

}  // namespace

void WriteMsprobeLeaf(const MsprobeRow& row, JsonWriter& out) {
  switch (row.kind) {
    case RecordKind::kNone:
      out.Null();
      return;
    case RecordKind::kNumber:
      out.BeginObject();
      WriteNumberValue(row, out);
      out.EndObject();
      return;
    case RecordKind::kText:
      out.BeginObject().Field("type", "str").Field("value", row.text);
      out.EndObject();
      return;
    case RecordKind::kDType:
      out.BeginObject().Field("type", "torch.dtype").Field("value", row.text);
      out.EndObject();
      return;
    case RecordKind::kOther:
      out.BeginObject();
      out.Field("type", row.text.substr(0, row.text.find('(')));
      out.Field("value", row.text).EndObject();
      return;
    default:
      WriteTensor(row, out);
  }
}

}  // namespace msitd::exports
