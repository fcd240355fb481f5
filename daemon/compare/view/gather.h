// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace msitd::compare {

// Elements of one source that follow one another in the output: `count` runs of
// `length` consecutive elements, which begin `stride` elements apart in the
// source. Unless `count` is 1, `stride` is at least `length`, or it is 0 and
// `length` is 1.
struct GatherRun {
  uint32_t leaf = 0;  // Number of the source.
  uint64_t from = 0;  // Element of the source.
  uint64_t to = 0;    // Element of the output.
  uint64_t count = 1;
  uint64_t stride = 0;
  uint64_t length = 1;
};

// Which element of which source is at each position of an output tensor.
//
// Permuting, slicing and splitting only change the strides with which a tensor
// is read, so that any number of these steps costs no more than one. A reshape
// keeps that form if the strides allow it. Otherwise it begins another level:
// its positions are translated to positions of the level below. A
// concatenation is a level with several tensors below it. The elements are
// never stored in between, however many levels there are.
//
// Value type; copies share lower levels, which are immutable.
// Thread-compatible.
class Gather {
 public:
  // The elements of a source of this shape, in row-major order.
  static Gather OfLeaf(uint32_t leaf, std::vector<int64_t> shape);

  // Concatenates tensors along a dimension. Their other dimensions must be
  // equal.
  static Gather Concat(const std::vector<Gather>& parts, size_t dim);

  // Returns the same gather of other sources: source i becomes source
  // `first + i`. Takes time proportional to the number of concatenated tensors.
  Gather OfLeavesFrom(uint32_t first) const;

  // Dimensions of the output.
  std::vector<int64_t> shape() const;
  uint64_t element_count() const;

  // Change the order or the selection of elements. Arguments must fit the
  // shape. `order` has each dimension once. `shape` has as many elements.
  void Permute(std::span<const size_t> order);
  void Slice(size_t dim, int64_t begin, int64_t end);
  void Reshape(const std::vector<int64_t>& shape);
  // Repeats a dimension of length 1 `count` times.
  void Repeat(size_t dim, int64_t count);

  // True if the output has every element of each of its sources exactly once.
  bool keeps_all() const { return keeps_all_; }
  // True if the output has elements of this source.
  bool uses(uint32_t leaf) const;
  // True if the output is source 0 itself, apart from its shape.
  bool is_identity() const;
  // True if reading the output in order reads each source in ascending order.
  bool is_ascending() const;

  // Calls `visit` with the runs of output elements `begin` to `begin + count` -
  // 1, in the order of the output. `to` counts from `begin`.
  void VisitRuns(uint64_t begin, uint64_t count,
                 absl::FunctionRef<void(const GatherRun&)> visit) const;

  // Calls `visit` with runs that have each source element of the output, in any
  // order; an element may occur again. Returns false, and may leave out
  // elements, if there are more than about `runs_max` runs.
  bool VisitElements(uint64_t runs_max,
                     absl::FunctionRef<void(const GatherRun&)> visit) const;

 private:
  struct Dim {
    uint64_t size = 1;
    uint64_t stride = 0;
  };
  struct Level;
  using Visit = absl::FunctionRef<void(const GatherRun&)>;

  // Splits and merges dimensions so that they have this shape, if the strides
  // allow it. Otherwise returns false.
  bool TryReshape(const std::vector<int64_t>& shape);
  // Updates merged_ after dims_ have changed.
  void Merge();
  void VisitRunsAt(uint64_t begin, uint64_t count, uint64_t to,
                   Visit visit) const;
  // Returns the same elements in the order of their positions on the level
  // below, without repetitions by strides of 0.
  Gather Sorted() const;
  // Number of elements on the level below. That level must not be a source.
  uint64_t CountBelow() const;
  // Visits `count` runs of `length` elements of the level below.
  void VisitBlock(const GatherRun& run, Visit visit) const;

  std::shared_ptr<const Level> below_;
  std::vector<Dim> dims_;
  // dims_ without dimensions of length 1, and with neighbors merged where they
  // are contiguous. Not empty.
  std::vector<Dim> merged_;
  uint64_t offset_ = 0;
  bool keeps_all_ = true;
};

}  // namespace msitd::compare
