// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/min_max.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/file_name.h"
#include "client/foreign/write/writer/npy_header.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

constexpr std::string_view kNpy = ".npy";
constexpr std::string_view kNpyMinMax = "_min_max.npy";
constexpr std::string_view kNpzMinMax = "_min_max.npz";

constexpr size_t kElementBytes = size_t{1} << 20;

double HalfOf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
double AsFloat(uint64_t bits) {
  T value = {};
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

double FloatOf(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kFloat16:
      return HalfOf(static_cast<uint16_t>(bits));
    case DType::kBfloat16:
      return AsFloat<float>(bits << 16);
    case DType::kFloat32:
      return AsFloat<float>(bits);
    default:
      return AsFloat<double>(bits);
  }
}

bool IsSigned(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 ||
         dtype == DType::kInt32 || dtype == DType::kInt64;
}

bool IsWhole(DType dtype) {
  return IsSigned(dtype) || dtype == DType::kUint8 || dtype == DType::kUint16 ||
         dtype == DType::kUint32 || dtype == DType::kUint64;
}

bool HasOrder(DType dtype) {
  return IsWhole(dtype) || dtype == DType::kBool || dtype == DType::kFloat16 ||
         dtype == DType::kBfloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

template <typename T>
struct Range {
  T min{};
  T max{};
};

// Iterates over elements of `bytes`. Floats of 2 bytes are passed as their
// bits.
template <typename T, typename Less, typename IsNan>
void Extend(std::span<const std::byte> bytes, Less less, IsNan is_nan,
            bool& has_any, Range<T>& range) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (!std::exchange(has_any, true)) {
      range = {value, value};
      continue;
    }
    if (is_nan(range.min)) return;
    if (is_nan(value)) {
      range = {value, value};
      return;
    }
    if (less(value, range.min)) range.min = value;
    if (less(range.max, value)) range.max = value;
  }
}

template <typename T, typename Less, typename IsNan>
absl::Status ReadRange(formats::TensorFile& file, Less less, IsNan is_nan,
                       MinMax* out) {
  std::vector<std::byte> buffer(kElementBytes);
  Range<T> range;
  bool has_any = false;
  for (;;) {
    MSITD_ASSIGN_OR_RETURN(const size_t count, file.Read(buffer));
    if (count == 0) break;
    Extend<T>(std::span(buffer).first(count), less, is_nan, has_any, range);
  }
  if (!has_any) return absl::InvalidArgumentError("a tensor has no elements");
  std::memcpy(&out->min_bits, &range.min, sizeof(T));
  std::memcpy(&out->max_bits, &range.max, sizeof(T));
  return absl::OkStatus();
}

// Maps the bits of a float of 2 bytes to a number with the same order as the
// values.
int RankOf(uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
absl::Status ReadNumbers(formats::TensorFile& file, MinMax* out) {
  return ReadRange<T>(
      file, [](T a, T b) { return a < b; }, [](T a) { return a != a; }, out);
}

absl::Status ReadTensor(formats::TensorFile& file, MinMax* out) {
  const DType dtype = out->dtype;
  const int infinity = dtype == DType::kFloat16 ? 0x7c00 : 0x7f80;
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return ReadNumbers<uint8_t>(file, out);
    case DType::kInt8:
      return ReadNumbers<int8_t>(file, out);
    case DType::kInt16:
      return ReadNumbers<int16_t>(file, out);
    case DType::kInt32:
      return ReadNumbers<int32_t>(file, out);
    case DType::kInt64:
      return ReadNumbers<int64_t>(file, out);
    case DType::kUint16:
      return ReadNumbers<uint16_t>(file, out);
    case DType::kUint32:
      return ReadNumbers<uint32_t>(file, out);
    case DType::kUint64:
      return ReadNumbers<uint64_t>(file, out);
    case DType::kFloat32:
      return ReadNumbers<float>(file, out);
    case DType::kFloat64:
      return ReadNumbers<double>(file, out);
    default:
      return ReadRange<uint16_t>(
          file, [](uint16_t a, uint16_t b) { return RankOf(a) < RankOf(b); },
          [infinity](uint16_t a) { return (a & 0x7fff) > infinity; }, out);
  }
}

int64_t SignedOf(DType dtype, uint64_t bits) {
  const int unused = 64 - 8 * InfoOf(dtype).bytes;
  if (!IsSigned(dtype)) return static_cast<int64_t>(bits);
  return static_cast<int64_t>(bits << unused) >> unused;
}

// Returns the bits of a whole number that a half can represent.
uint64_t HalfBits(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const auto bits = static_cast<uint64_t>(std::ldexp(fraction, 11)) & 0x3ff;
  const uint64_t sign = value < 0 ? 0x8000 : 0;
  return sign | static_cast<uint64_t>(exponent + 14) << 10 | bits;
}

// Returns the bits of an element after conversion to the promoted type.
uint64_t Converted(DType from, uint64_t bits, DType to) {
  if (from == to) return bits;
  if (!IsFloatingPoint(to)) return static_cast<uint64_t>(SignedOf(from, bits));
  double value = 0;
  if (IsFloatingPoint(from)) {
    value = FloatOf(from, bits);
  } else if (from == DType::kUint64) {
    value = static_cast<double>(bits);
  } else {
    value = static_cast<double>(SignedOf(from, bits));
  }
  if (to == DType::kFloat16) return HalfBits(value);
  if (to == DType::kFloat64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

DType SignedOfBytes(int bytes) {
  if (bytes <= 1) return DType::kInt8;
  if (bytes == 2) return DType::kInt16;
  return bytes == 4 ? DType::kInt32 : DType::kInt64;
}

// The row of a tensor that the task did not have.
MinMax AbsentRow(Io io) {
  constexpr uint64_t kNan =
      std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  return {io, DType::kFloat32, kNan, kNan};
}

}  // namespace

std::optional<std::string> MinMaxName(std::string_view name) {
  if (SourceOfMinMax(name)) return std::nullopt;
  if (name.ends_with(kNpy)) {
    const auto dump = trees::ParseGeFileName(name);
    // A single array of a converted task is not a dump.
    if (dump && dump->form != trees::GeForm::kDump) return std::nullopt;
    name.remove_suffix(kNpy.size());
    return std::string(name).append(kNpyMinMax);
  }
  const auto dump = trees::ParseGeFileName(name);
  if (!dump || dump->form != trees::GeForm::kDump) return std::nullopt;
  return std::string(name).append(kNpzMinMax);
}

std::optional<std::string> SourceOfMinMax(std::string_view name) {
  if (name.ends_with(kNpyMinMax)) {
    name.remove_suffix(kNpyMinMax.size());
    return std::string(name).append(kNpy);
  }
  if (!name.ends_with(kNpzMinMax)) return std::nullopt;
  name.remove_suffix(kNpzMinMax.size());
  return std::string(name);
}

DType Promote(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (IsFloatingPoint(b) && !IsFloatingPoint(a)) std::swap(a, b);
  const int bytes_a = InfoOf(a).bytes;
  const int bytes_b = InfoOf(b).bytes;
  if (IsFloatingPoint(a) && IsFloatingPoint(b))
    return bytes_a >= bytes_b ? a : b;
  if (IsFloatingPoint(a)) {
    if (bytes_b >= 4) return DType::kFloat64;
    return bytes_b == 2 && bytes_a < 4 ? DType::kFloat32 : a;
  }
  if (IsSigned(a) == IsSigned(b)) return bytes_a >= bytes_b ? a : b;
  const int bytes_unsigned = IsSigned(a) ? bytes_b : bytes_a;
  const int bytes_signed = IsSigned(a) ? bytes_a : bytes_b;
  if (bytes_unsigned == 8) return DType::kFloat64;
  return SignedOfBytes(std::max(bytes_signed, 2 * bytes_unsigned));
}

absl::Status ReadMinMax(const std::string& path, std::vector<MinMax>* out) {
  MSITD_ASSIGN_OR_RETURN(const auto file, formats::OpenTensorFile(path, {}));
  while (const formats::ForeignTensor* tensor = file->Next()) {
    if (tensor->is_absent) {
      out->push_back(AbsentRow(tensor->io));
      continue;
    }
    MSITD_RETURN_IF_ERROR(tensor->problem);
    MinMax row{.io = tensor->io, .dtype = tensor->dtype};
    if (!HasOrder(row.dtype)) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "{} has no smallest element", DTypeName(row.dtype));
    }
    MSITD_RETURN_IF_ERROR(ReadTensor(*file, &row));
    // NumPy has no such type.
    if (row.dtype == DType::kBfloat16) {
      row.dtype = DType::kFloat32;
      row.min_bits <<= 16;
      row.max_bits <<= 16;
    }
    out->push_back(row);
  }
  return absl::OkStatus();
}

std::string MinMaxArray(const std::vector<MinMax>& rows, bool is_one) {
  DType dtype = rows.empty() ? DType::kFloat64 : rows[0].dtype;
  for (const MinMax& row : rows) dtype = Promote(dtype, row.dtype);
  std::vector<int64_t> shape;
  const auto count = static_cast<int64_t>(rows.size());
  if (!is_one) shape.push_back(count);
  if (count > 0) shape.push_back(2);
  std::string out = write::MakeNpyHeader(dtype, shape).bytes;
  for (const MinMax& row : rows) {
    for (const uint64_t bits : {row.min_bits, row.max_bits}) {
      const uint64_t value = Converted(row.dtype, bits, dtype);
      out.append(reinterpret_cast<const char*>(&value), InfoOf(dtype).bytes);
    }
  }
  return out;
}

}  // namespace msitd::watch
