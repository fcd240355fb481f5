// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protos/base/dtype.h"

// Reduces the elements of a pair of tensors to the cells of a drawing. A tensor
// has up to millions of elements and a drawing some ten thousand cells, so each
// cell stands for several elements. A cell of a picture is one of its elements,
// the worst one, and not their mean. A single wrong element stays visible.
namespace msitd::web {

// A drawing has at most this number of cells in each direction.
inline constexpr int64_t kPictureCellsMax = 128;
inline constexpr int kDensityCellsMax = 48;

// Contiguous elements of a tensor.
struct Elements {
  DType dtype = DType::kUnspecified;
  std::span<const std::byte> bytes;

  int64_t count() const {
    return static_cast<int64_t>(bytes.size() / ElementBytes(dtype));
  }
};

// True for types whose elements are numbers. Complex numbers are not.
bool HasNumbers(DType dtype);

// Returns target - golden. Two NaN and equal infinities do not differ.
double DifferenceOf(double golden, double target);

// Returns target - golden of one element, of which `g` and `t` are the values
// as double. A pair with a 64-bit integer is subtracted before it is rounded,
// as the metrics of the daemon are: double has only 53 bits.
double ElementDifference(const Elements& golden, const Elements& target,
                         int64_t element, double g, double t);

// An element and its difference. NaN is the largest difference.
struct PairedElement {
  int64_t element = -1;  // -1 if there are no elements.
  double golden = 0;
  double target = 0;
  double difference = 0;
};

// The number of elements by the magnitude of the golden value and that of the
// difference, both in powers of two.
struct Density {
  struct Cell {
    // 0: the value is 0. Otherwise, cell n has values from
    // 2^(exponent + (n - 1) * step) on.
    int x = 0;
    int y = 0;
    int64_t count = 0;
  };
  int x_exponent = 0;
  int x_step = 1;
  int y_exponent = 0;
  int y_step = 1;
  std::vector<Cell> cells;
  int64_t element_count = 0;
  // Elements with a NaN or an infinity, which are in no cell.
  int64_t non_finite_count = 0;
  PairedElement largest;
};

// Both sides have the same number of elements.
Density MeasureDensity(const Elements& golden, const Elements& target);

// Two dimensions of a tensor, at fixed positions of the others.
struct Slice {
  std::vector<int64_t> shape;
  // Dimensions whose positions are the lines and the columns; -1: a single one.
  int line_dim = -1;
  int column_dim = -1;
  // Positions of all dimensions; those of the two above are ignored.
  std::vector<int64_t> at;

  int64_t lines() const { return Extent(line_dim); }
  int64_t columns() const { return Extent(column_dim); }
  // Numbers of the first and the last element.
  int64_t first() const;
  int64_t last() const;
  int64_t Stride(int dim) const;

 private:
  int64_t Extent(int dim) const {
    return dim < 0 ? 1 : shape[static_cast<size_t>(dim)];
  }
};

// Returns the slice that shows most: the last two dimensions that have several
// positions, at those of an element, or at 0 if it is -1.
Slice DefaultSlice(const std::vector<int64_t>& shape, int64_t element);

// Returns the position of an element in each dimension.
std::vector<int64_t> PositionOf(const std::vector<int64_t>& shape,
                                int64_t element);

// A slice as cells, each of which is the element of its block that differs
// most, or that is largest if only one side has elements.
struct Picture {
  int64_t lines = 0;
  int64_t columns = 0;
  // Lines and columns of a block.
  int64_t line_step = 1;
  int64_t column_step = 1;
  std::vector<double> golden;
  std::vector<double> target;
  // target - golden; empty if only one side has elements.
  std::vector<double> difference;
};

// `golden` and `target` have the elements of the tensor from number
// `slice.first()` to `slice.last()`. One of them may be empty.
Picture MakePicture(const Slice& slice, const Elements& golden,
                    const Elements& target);

}  // namespace msitd::web
