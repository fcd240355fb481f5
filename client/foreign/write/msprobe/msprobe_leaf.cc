// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_leaf.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "client/foreign/write/msprobe/msprobe_said.h"
#include "client/foreign/write/msprobe/msprobe_value.h"
#include "client/foreign/write/writer/torch_file.h"
#include "protos/base/dtype.h"
#include "protos/base/rounding.h"
#include "protos/base/tensor_statistics.h"

namespace msitd::write {
namespace {

// Larger extremes cannot be represented exactly as doubles.
constexpr double kExactMax = 9007199254740992.0;

void WriteStatistic(const TensorStatistic& statistic, JsonWriter& out) {
  if (!statistic.is_string) {
    out.Raw(statistic.text);
  } else if (statistic.text == "nan") {
    out.PythonNumber("NaN");
  } else if (statistic.text == "inf") {
    out.PythonNumber("Infinity");
  } else if (statistic.text == "-inf") {
    out.PythonNumber("-Infinity");
  } else {
    out.Text(statistic.text);
  }
}

bool IsXor(const std::optional<TensorStatistic>& checksum) {
  return checksum.has_value() && checksum->name == "xor";
}

// Writes the statistics of another tool in their original form. `checksum` is a
// view of `text`.
void WriteForeignStatistics(const std::string& text, JsonWriter& out,
                            std::optional<TensorStatistic>& checksum) {
  const auto statistics = ParseTensorStatistics(text);
  for (const TensorStatistic& one :
       statistics.value_or(std::vector<TensorStatistic>())) {
    if (IsChecksum(one.name)) checksum = one;
  }
  // If msprobe records an xor, it records nothing else.
  if (IsXor(checksum) && statistics->size() == 1) return;
  for (const auto& [theirs, ours] :
       {std::pair{"Max", "max"}, std::pair{"Min", "min"},
        std::pair{"Mean", "mean"}, std::pair{"Norm", "l2_norm"}}) {
    out.Key(theirs);
    const TensorStatistic* found = nullptr;
    if (statistics.has_value()) {
      for (const TensorStatistic& one : *statistics) {
        if (one.name == ours) found = &one;
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

// msprobe computes statistics in the type of the tensor. A NaN or an infinity
// in the tensor appears in all of them.
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

// For a scalar, msprobe writes the value, and that of an integer or a bool in
// the form of a checksum.
void WriteXor(const MsprobeRow& row, JsonWriter& out) {
  const bool has_nan = row.summary.nan_count() > 0;
  const bool is_scalar = row.shape.empty() && row.summary.count() > 0;
  const DTypeKind kind = InfoOf(row.dtype).kind;
  const bool is_whole = kind == DTypeKind::kInteger || kind == DTypeKind::kBool;
  if (is_scalar && is_whole && ElementBytes(row.dtype) < sizeof(int64_t)) {
    const auto value = static_cast<int64_t>(row.summary.max());
    out.Text(fmt::format("0x{:016x}", static_cast<uint64_t>(value)));
  } else if (is_scalar && !is_whole && !has_nan) {
    WriteNumber(row.dtype, row.summary.max(), out);
  } else {
    out.Text(row.checksum->text);
  }
}

void WriteTensor(const MsprobeRow& row, JsonWriter& out) {
  out.BeginObject().Field("type", "torch.Tensor");
  out.Field("dtype", "torch." + std::string(TorchTypeName(row.dtype)));
  out.Key("shape").BeginList();
  for (const int64_t extent : row.shape) out.Number(extent);
  out.EndList();
  std::optional<TensorStatistic> checksum;
  const bool has_xor = row.checksum.has_value() && row.checksum->is_xor;
  if (has_xor) {
    WriteXor(row, out.Key("md5"));
  } else if (row.kind == RecordKind::kStatistics) {
    WriteForeignStatistics(row.text, out, checksum);
  } else {
    const Statistics statistics = StatisticsOf(row);
    WriteNumber(row.dtype, statistics.max, out.Key("Max"));
    WriteNumber(row.dtype, statistics.min, out.Key("Min"));
    WriteNumber(row.dtype, statistics.mean, out.Key("Mean"));
    WriteNumber(row.dtype, statistics.norm, out.Key("Norm"));
  }
  if (IsXor(checksum)) WriteStatistic(*checksum, out.Key("md5"));
  out.Key("requires_grad").Bool(row.requires_grad);
  if (!row.file.empty()) out.Field("data_name", row.file);
  if (row.checksum.has_value() && !has_xor) {
    out.Field("md5", row.checksum->text);
  } else if (checksum.has_value() && !IsXor(checksum)) {
    WriteStatistic(*checksum, out.Key("md5"));
  }
  out.EndObject();
}

}  // namespace

void WriteMsprobeLeaf(const MsprobeRow& row, JsonWriter& out) {
  const bool is_tensor =
      row.kind == RecordKind::kTensor || row.kind == RecordKind::kStatistics;
  if (!row.said.empty()) {
    WriteLeafAsSaid(row.said, row.file, out);
  } else if (is_tensor) {
    WriteTensor(row, out);
  } else {
    WriteMsprobeValue(row, out);
  }
}

}  // namespace msitd::write
