// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_statistics.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include "client/ask/report/schema/row_fields.h"
#include "protos/base/dtype.h"
#include "protos/base/rounding.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_statistics.h"

namespace msitd::report {
namespace {

using Kind = MsprobeStatistic::Kind;

const MsprobeStatistic kNone = {Kind::kOther, 0, "None"};

MsprobeStatistic OfTruth(bool value) {
  return {Kind::kOther, 0, ask::Truth{value, /*is_python=*/true}};
}

MsprobeStatistic OfReal(double value) {
  Kind kind = std::isinf(value) ? Kind::kInfinity : Kind::kNumber;
  if (std::isnan(value)) kind = Kind::kNan;
  return {kind, value, ask::Real{value, ask::RealStyle::kMsprobe}};
}

MsprobeStatistic OfInteger(double value) {
  return {Kind::kNumber, value, ask::Real{value, ask::RealStyle::kWhole}};
}

bool HasSummary(const v1::ComparedTensor& side) { return side.has_nan_count(); }

// Returns the square root of a sum of squares in float.
double NormOf(double norm) {
  const auto squares = static_cast<float>(norm * norm);
  if (std::isinf(squares)) return HUGE_VAL;
  return squares == 0 ? 0 : norm;
}

MsprobeStatistics OfFloats(const v1::ComparedTensor& side, DType dtype) {
  const bool has_nan = side.nan_count() > 0;
  const auto real = [has_nan](double value) {
    return OfReal(has_nan ? std::nan("") : value);
  };
  MsprobeStatistics out = {real(side.max()), real(side.min()), kNone, kNone};
  if (side.shape().empty()) {
    out[2] = out[3] = out[0];
  } else if (dtype != DType::kFloat64) {
    out[2] = real(RoundTo(dtype, ask::MeanOf(side)));
    out[3] = real(side.infinity_count() > 0
                      ? HUGE_VAL
                      : RoundTo(dtype, NormOf(side.l2_norm())));
  }
  return out;
}

// For complex elements, it is known only whether a magnitude is not finite.
MsprobeStatistics OfComplex(const v1::ComparedTensor& side) {
  MsprobeStatistics out = {};
  if (side.nan_count() > 0) {
    out.fill(OfReal(std::nan("")));
  } else if (side.infinity_count() > 0) {
    out[0] = out[2] = OfReal(HUGE_VAL);
  }
  out[3] = kNone;
  return out;
}

// Returns true if msprobe records no statistics of the type.
bool IsNone(const v1::ComparedTensor& side, DType dtype) {
  const bool is_small_float =
      IsFloatingPoint(dtype) && ElementBytes(dtype) == 1;
  return is_small_float || ElementCount(side.shape()) == 0;
}

std::vector<TensorStatistic> RecordedBy(const v1::ComparedTensor& side) {
  return ParseTensorStatistics(side.value())
      .value_or(std::vector<TensorStatistic>());
}

MsprobeStatistic OfRecorded(const TensorStatistic& statistic, DType dtype) {
  const std::string_view text = statistic.text;
  const auto number = NumberOf(statistic);
  if (!number.has_value()) return {Kind::kOther, 0, std::string(text)};
  if (dtype == DType::kBool) return OfTruth(*number != 0);
  int64_t integer = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), integer);
  const bool is_integer = !statistic.is_string && error == std::errc() &&
                          end == text.data() + text.size();
  const bool is_whole = InfoOf(dtype).kind == DTypeKind::kInteger;
  // A double cannot represent all digits.
  if (is_integer && is_whole) return {Kind::kNumber, *number, integer};
  return OfReal(*number);
}

MsprobeStatistics OfStatistics(const v1::ComparedTensor& side, DType dtype) {
  constexpr std::array<std::string_view, 4> kNames = {"max", "min", "mean",
                                                      "l2_norm"};
  const bool has_mean = dtype == DType::kFloat16 || dtype == DType::kBfloat16 ||
                        dtype == DType::kFloat32 || side.shape().empty();
  MsprobeStatistics out = {};
  if (IsNone(side, dtype)) {
    out.fill(kNone);
  } else if (IsComplex(dtype)) {
    out[3] = kNone;
  } else if (!has_mean || dtype == DType::kBool) {
    out[2] = out[3] = kNone;
  }
  for (const TensorStatistic& one : RecordedBy(side)) {
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (one.name == kNames[i]) out[i] = OfRecorded(one, dtype);
    }
  }
  return out;
}

bool IsStatistics(const v1::ComparedTensor& side) {
  return side.kind() == v1::RECORD_KIND_STATISTICS;
}

}  // namespace

MsprobeChecksum ChecksumOf(const v1::ComparedTensor& side) {
  if (!IsStatistics(side)) return {"hash", side.hash()};
  for (const TensorStatistic& one : RecordedBy(side)) {
    if (IsChecksum(one.name)) {
      return {std::string(one.name), std::string(one.text)};
    }
  }
  return {};
}

MsprobeStatistics StatisticsOf(const v1::ComparedTensor& side) {
  const auto dtype = static_cast<DType>(side.dtype());
  if (IsStatistics(side)) return OfStatistics(side, dtype);
  MsprobeStatistics out = {};
  if (!HasSummary(side)) return out;
  if (IsNone(side, dtype)) {
    out.fill(kNone);
  } else if (IsComplex(dtype)) {
    out = OfComplex(side);
  } else if (IsFloatingPoint(dtype)) {
    out = OfFloats(side, dtype);
  } else if (dtype == DType::kBool) {
    out = {OfTruth(side.max() > 0), OfTruth(side.min() > 0), kNone, kNone};
  } else if (side.shape().empty()) {
    out.fill(OfInteger(side.max()));
  } else {
    out = {OfInteger(side.max()), OfInteger(side.min()), kNone, kNone};
  }
  return out;
}

StatisticsDifference DifferenceOf(const MsprobeStatistic& target,
                                  const MsprobeStatistic& golden) {
  const auto either = [&](Kind kind) {
    return target.kind == kind || golden.kind == kind;
  };
  // In msprobe, equal texts are equal, including NaN, and +0 differs from -0.
  if (target.kind != Kind::kAbsent &&
      ask::TextOf(target.cell) == ask::TextOf(golden.cell)) {
    return {int64_t{0}, int64_t{0}};
  }
  const bool are_devices =
      target.kind == Kind::kDevice && golden.kind == Kind::kDevice;
  if (either(Kind::kAbsent) || are_devices) return {"N/A", "N/A"};
  if (either(Kind::kOther) || either(Kind::kDevice)) return {"Diff", "Diff"};
  if (either(Kind::kNan)) return {"Nan", "Nan"};
  if (either(Kind::kInfinity)) {
    const bool is_positive =
        target.kind == Kind::kInfinity ? target.number > 0 : golden.number < 0;
    const std::string text = is_positive ? "inf" : "-inf";
    return {text, text};
  }
  const double difference = target.number - golden.number;
  const ask::Real cell = {difference, ask::RealStyle::kPython};
  if (golden.number == 0) return {cell, "inf"};
  return {cell,
          ask::PythonFloat(std::fabs(difference / golden.number * 100)) + "%"};
}

std::optional<double> FractionOf(const std::string& relative) {
  if (!relative.ends_with('%')) return std::nullopt;
  return std::strtod(relative.c_str(), nullptr) / 100;
}

}  // namespace msitd::report
