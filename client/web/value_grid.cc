// SPDX-License-Identifier: Apache-2.0
#include "client/web/value_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/numeric/int128.h"
#include "protos/compute/number/element.h"

namespace msitd::web {
namespace {

// Elements that are converted at a time.
constexpr int64_t kBlock = 4096;
// Smaller and larger exponents count as these.
constexpr int kExponentMax = 200;
constexpr int kExponents = 2 * kExponentMax + 1;

void Convert(const Elements& elements, int64_t first, int64_t count,
             double* out) {
  const size_t size = ElementBytes(elements.dtype);
  compute::ToDouble(elements.dtype,
                    elements.bytes.data() + static_cast<size_t>(first) * size,
                    static_cast<size_t>(count), out);
}

bool IsWide(DType dtype) {
  return dtype == DType::kInt64 || dtype == DType::kUint64;
}

template <typename Integer>
absl::int128 IntegerAt(const std::byte* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// An element without its fraction. `rounded` is its value as double.
absl::int128 WholeOf(const Elements& elements, int64_t element,
                     double rounded) {
  const std::byte* const bytes =
      elements.bytes.data() +
      static_cast<size_t>(element) * ElementBytes(elements.dtype);
  if (elements.dtype == DType::kInt64) return IntegerAt<int64_t>(bytes);
  if (elements.dtype == DType::kUint64) return IntegerAt<uint64_t>(bytes);
  return absl::int128(std::trunc(rounded));
}

double FractionOf(const Elements& elements, double rounded) {
  return IsWide(elements.dtype) ? 0 : rounded - std::trunc(rounded);
}

// 0 for the value 0; otherwise the exponent, from 1 on.
int BinOf(double magnitude) {
  if (magnitude == 0) return 0;
  return std::clamp(std::ilogb(magnitude), -kExponentMax, kExponentMax) +
         kExponentMax + 1;
}

bool IsWorse(double difference, double than) {
  if (std::isnan(than)) return false;
  return std::isnan(difference) || std::abs(difference) > std::abs(than);
}

// Cells of equal width over the bins of one direction that are used.
struct Axis {
  int first = 1;
  int step = 1;

  int CellOf(int bin) const { return bin == 0 ? 0 : (bin - first) / step + 1; }
  int exponent() const { return first - 1 - kExponentMax; }
};

Axis AxisOf(const std::vector<bool>& used) {
  Axis axis;
  int last = 0;
  for (int bin = kExponents; bin >= 1; --bin) {
    if (!used[static_cast<size_t>(bin)]) continue;
    axis.first = bin;
    if (last == 0) last = bin;
  }
  if (last == 0) return axis;
  const int count = last - axis.first + 1;
  axis.step = (count + kDensityCellsMax - 1) / kDensityCellsMax;
  return axis;
}

// Converts the lines of a slice, of which the first element has the number 0.
class LineReader {
 public:
  LineReader(const Slice& slice, const Elements& elements)
      : elements_(elements),
        line_stride_(slice.Stride(slice.line_dim)),
        column_stride_(slice.Stride(slice.column_dim)),
        values_(static_cast<size_t>(slice.columns())) {}

  bool has_elements() const { return !elements_.bytes.empty(); }
  int64_t element(int64_t line, int64_t column) const {
    return line * line_stride_ + column * column_stride_;
  }

  const std::vector<double>& Read(int64_t line) {
    if (!has_elements()) return values_;
    const int64_t first = line * line_stride_;
    if (column_stride_ == 1) {
      Convert(elements_, first, static_cast<int64_t>(values_.size()),
              values_.data());
      return values_;
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      Convert(elements_, first + static_cast<int64_t>(i) * column_stride_, 1,
              &values_[i]);
    }
    return values_;
  }

 private:
  const Elements elements_;
  const int64_t line_stride_;
  const int64_t column_stride_;
  std::vector<double> values_;
};

}  // namespace

bool HasNumbers(DType dtype) {
  const DTypeKind kind = InfoOf(dtype).kind;
  return IsValid(dtype) && kind != DTypeKind::kNone &&
         kind != DTypeKind::kComplex;
}

double DifferenceOf(double golden, double target) {
  if (golden == target || (std::isnan(golden) && std::isnan(target))) return 0;
  return target - golden;
}

double ElementDifference(const Elements& golden, const Elements& target,
                         int64_t element, double g, double t) {
  // The integers of double, and those of 64 bits.
  constexpr double kExactMax = 0x1p53;
  constexpr double kWholeMax = 0x1p64;
  const double larger = std::max(std::abs(g), std::abs(t));
  const bool is_rounded = (IsWide(golden.dtype) || IsWide(target.dtype)) &&
                          std::isfinite(g) && std::isfinite(t) &&
                          larger >= kExactMax && larger <= kWholeMax;
  if (!is_rounded) return DifferenceOf(g, t);
  return static_cast<double>(WholeOf(target, element, t) -
                             WholeOf(golden, element, g)) +
         (FractionOf(target, t) - FractionOf(golden, g));
}

Density MeasureDensity(const Elements& golden, const Elements& target) {
  constexpr auto kBins = static_cast<size_t>(kExponents + 1);
  Density out;
  out.element_count = std::min(golden.count(), target.count());
  std::vector<int64_t> counts(kBins * kBins);
  std::vector<bool> used_x(kBins);
  std::vector<bool> used_y(kBins);
  std::array<double, kBlock> g;
  std::array<double, kBlock> t;
  for (int64_t first = 0; first < out.element_count; first += kBlock) {
    const int64_t count = std::min(kBlock, out.element_count - first);
    Convert(golden, first, count, g.data());
    Convert(target, first, count, t.data());
    for (int64_t j = 0; j < count; ++j) {
      const auto i = static_cast<size_t>(j);
      const double difference =
          ElementDifference(golden, target, first + j, g[i], t[i]);
      if (out.largest.element < 0 ||
          IsWorse(difference, out.largest.difference)) {
        out.largest = {first + j, g[i], t[i], difference};
      }
      if (!std::isfinite(g[i]) || !std::isfinite(t[i])) {
        ++out.non_finite_count;
        continue;
      }
      const auto x = static_cast<size_t>(BinOf(std::abs(g[i])));
      const auto y = static_cast<size_t>(BinOf(std::abs(difference)));
      used_x[x] = used_y[y] = true;
      ++counts[y * kBins + x];
    }
  }
  const Axis x_axis = AxisOf(used_x);
  const Axis y_axis = AxisOf(used_y);
  constexpr size_t kCells = kDensityCellsMax + 1;
  std::vector<int64_t> cells(kCells * kCells);
  for (size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] == 0) continue;
    const int x = x_axis.CellOf(static_cast<int>(bin % kBins));
    const int y = y_axis.CellOf(static_cast<int>(bin / kBins));
    cells[static_cast<size_t>(y) * kCells + static_cast<size_t>(x)] +=
        counts[bin];
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] == 0) continue;
    out.cells.push_back(
        {static_cast<int>(i % kCells), static_cast<int>(i / kCells), cells[i]});
  }
  out.x_exponent = x_axis.exponent();
  out.x_step = x_axis.step;
  out.y_exponent = y_axis.exponent();
  out.y_step = y_axis.step;
  return out;
}

int64_t Slice::Stride(int dim) const {
  if (dim < 0) return 0;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > static_cast<size_t>(dim) + 1;) {
    stride *= shape[i];
  }
  return stride;
}

int64_t Slice::first() const {
  int64_t element = 0;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (dim == line_dim || dim == column_dim) continue;
    element += at[static_cast<size_t>(dim)] * Stride(dim);
  }
  return element;
}

int64_t Slice::last() const {
  return first() + (lines() - 1) * Stride(line_dim) +
         (columns() - 1) * Stride(column_dim);
}

std::vector<int64_t> PositionOf(const std::vector<int64_t>& shape,
                                int64_t element) {
  std::vector<int64_t> at(shape.size(), 0);
  for (size_t i = shape.size(); element > 0 && i-- > 0;) {
    at[i] = element % shape[i];
    element /= shape[i];
  }
  return at;
}

Slice DefaultSlice(const std::vector<int64_t>& shape, int64_t element) {
  Slice slice;
  slice.shape = shape;
  slice.at = PositionOf(shape, element);
  // Dimensions with a single position are used if there are no others.
  for (const bool wants_several : {true, false}) {
    for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) {
      if ((shape[static_cast<size_t>(dim)] > 1) != wants_several) continue;
      if (slice.column_dim < 0) {
        slice.column_dim = dim;
      } else if (slice.line_dim < 0) {
        slice.line_dim = dim;
      }
    }
  }
  if (slice.line_dim > slice.column_dim) {
    std::swap(slice.line_dim, slice.column_dim);
  }
  return slice;
}

Picture MakePicture(const Slice& slice, const Elements& golden,
                    const Elements& target) {
  Picture out;
  const auto blocks = [](int64_t extent, int64_t& step) {
    step = std::max<int64_t>(
        1, (extent + kPictureCellsMax - 1) / kPictureCellsMax);
    return (extent + step - 1) / step;
  };
  out.lines = blocks(slice.lines(), out.line_step);
  out.columns = blocks(slice.columns(), out.column_step);
  const auto cell_count = static_cast<size_t>(out.lines * out.columns);
  out.golden.resize(cell_count);
  out.target.resize(cell_count);
  std::vector<double> worst(cell_count, -1);
  LineReader golden_lines(slice, golden);
  LineReader target_lines(slice, target);
  const bool has_both =
      golden_lines.has_elements() && target_lines.has_elements();
  if (has_both) out.difference.resize(cell_count);
  for (int64_t line = 0; line < slice.lines(); ++line) {
    const std::vector<double>& g = golden_lines.Read(line);
    const std::vector<double>& t = target_lines.Read(line);
    for (int64_t column = 0; column < slice.columns(); ++column) {
      const auto i = static_cast<size_t>(column);
      const auto cell = static_cast<size_t>(line / out.line_step * out.columns +
                                            column / out.column_step);
      // The side that has no elements is 0.
      const double value =
          has_both ? ElementDifference(golden, target,
                                       golden_lines.element(line, column), g[i],
                                       t[i])
                   : DifferenceOf(0, g[i] + t[i]);
      if (worst[cell] != -1 && !IsWorse(value, worst[cell])) continue;
      worst[cell] = std::isnan(value) ? value : std::abs(value);
      out.golden[cell] = g[i];
      out.target[cell] = t[i];
      if (has_both) out.difference[cell] = value;
    }
  }
  return out;
}

}  // namespace msitd::web
