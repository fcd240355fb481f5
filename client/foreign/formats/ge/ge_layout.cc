// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_layout.h"

#include <algorithm>
#include <utility>

#include "client/foreign/formats/ge/ge_names.h"

namespace msitd::formats {
namespace {

using Shape = std::vector<int64_t>;

// Returns true if `extent` elements fit into `blocks` of `block`. The product
// is small because both are dimensions of one stored shape.
bool Fits(int64_t extent, int64_t blocks, int64_t block) {
  return extent >= 0 && extent <= blocks * block;
}

// The strides of the stored dimensions.
std::vector<uint64_t> StridesOf(const Shape& stored) {
  std::vector<uint64_t> strides;
  for (const Axis& axis : RowMajorAxes(stored)) strides.push_back(axis.stride);
  return strides;
}

Axis Whole(int64_t extent, uint64_t stride) {
  return {static_cast<uint64_t>(extent), stride};
}

// A block of 0 elements occurs only in an empty tensor.
Axis InBlocks(int64_t extent, uint64_t stride, int64_t block,
              uint64_t block_stride) {
  return {static_cast<uint64_t>(extent), stride,
          static_cast<uint64_t>(std::max<int64_t>(block, 1)), block_stride};
}

// Stored (matrices..., C1, N1, N0, C0), original (matrices..., N, C).
std::optional<PlainView> ViewNz(const Shape& stored, const Shape& original) {
  if (stored.size() < 4 || original.empty()) return std::nullopt;
  const size_t outer = stored.size() - 4;
  const int64_t* const blocks = stored.data() + outer;
  const int64_t columns = original.back();
  const int64_t rows = original.size() < 2 ? 1 : original[original.size() - 2];
  if (!Fits(columns, blocks[0], blocks[3]) ||
      !Fits(rows, blocks[1], blocks[2])) {
    return std::nullopt;
  }
  int64_t matrices = 1;
  for (size_t i = 0; i < outer; ++i) matrices *= stored[i];
  Shape outer_shape(
      original.begin(),
      original.end() - std::min<ptrdiff_t>(2, std::ssize(original)));
  // Divides, because the product of arbitrary numbers could overflow.
  int64_t left = matrices;
  for (const int64_t dim : outer_shape) {
    if (dim <= 0 || left % dim != 0) return std::nullopt;
    left /= dim;
  }
  if (left != 1) return std::nullopt;
  const std::vector<uint64_t> strides = StridesOf(stored);
  const uint64_t matrix = strides[outer] * static_cast<uint64_t>(blocks[0]);
  PlainView view;
  view.shape = original;
  view.axes = RowMajorAxes(outer_shape);
  for (Axis& axis : view.axes) axis.stride *= matrix;
  if (original.size() > 1) {
    view.axes.push_back(
        InBlocks(rows, strides[outer + 1], blocks[2], strides[outer + 2]));
  }
  view.axes.push_back(
      InBlocks(columns, strides[outer], blocks[3], strides[outer + 3]));
  return view;
}

// Stored (N, C1, H, W, C0), original NCHW or NHWC.
std::optional<PlainView> ViewNc1hwc0(const Shape& stored,
                                     const Shape& original) {
  if (stored.size() != 5 || original.size() != 4) return std::nullopt;
  const int64_t n = stored[0];
  const int64_t h = stored[2];
  const int64_t w = stored[3];
  int64_t c = 0;
  if (original == Shape{n, original[1], h, w}) {
    c = original[1];
  } else if (original == Shape{n, h, w, original[3]}) {
    c = original[3];
  } else {
    return std::nullopt;
  }
  if (!Fits(c, stored[1], stored[4])) return std::nullopt;
  const std::vector<uint64_t> strides = StridesOf(stored);
  return PlainView{
      {n, c, h, w},
      {Whole(n, strides[0]), InBlocks(c, strides[1], stored[4], strides[4]),
       Whole(h, strides[2]), Whole(w, strides[3])}};
}

// Stored (N, D, C1, H, W, C0), original NCDHW, NDHWC or NC.
std::optional<PlainView> ViewNdc1hwc0(const Shape& stored,
                                      const Shape& original) {
  if (stored.size() != 6) return std::nullopt;
  const int64_t n = stored[0];
  const int64_t d = stored[1];
  const int64_t h = stored[3];
  const int64_t w = stored[4];
  int64_t c = 0;
  if (original.size() == 5 && original == Shape{n, original[1], d, h, w}) {
    c = original[1];
  } else if (original.size() == 5 &&
             original == Shape{n, d, h, w, original[4]}) {
    c = original[4];
  } else if (original.size() == 2 && original[0] == n && d == 1 && h == 1 &&
             w == 1) {
    c = original[1];
  } else {
    return std::nullopt;
  }
  if (!Fits(c, stored[2], stored[5])) return std::nullopt;
  const std::vector<uint64_t> strides = StridesOf(stored);
  PlainView view = {
      {n, c, d, h, w},
      {Whole(n, strides[0]), InBlocks(c, strides[2], stored[5], strides[5]),
       Whole(d, strides[1]), Whole(h, strides[3]), Whole(w, strides[4])}};
  if (original.size() == 2) {
    view.shape.resize(2);
    view.axes.resize(2);
  }
  return view;
}

// Stored (C1 * H * W, N1, N0, C0), original NCHW or HWCN.
std::optional<PlainView> ViewFractalZ(const Shape& stored,
                                      const Shape& original) {
  if (stored.size() != 4 || original.size() != 4) return std::nullopt;
  const Shape hwcn = {original[3], original[2], original[0], original[1]};
  for (const Shape& nchw : {original, hwcn}) {
    const int64_t n = nchw[0];
    const int64_t c = nchw[1];
    const int64_t h = nchw[2];
    const int64_t w = nchw[3];
    if (h <= 0 || w <= 0 || stored[0] % h != 0 || stored[0] / h % w != 0) {
      continue;
    }
    const int64_t c1 = stored[0] / h / w;
    const bool is_last_used = c > (c1 - 1) * stored[3];
    if (!Fits(c, c1, stored[3]) || !is_last_used ||
        !Fits(n, stored[1], stored[2])) {
      continue;
    }
    const std::vector<uint64_t> strides = StridesOf(stored);
    const uint64_t row = strides[0] * static_cast<uint64_t>(w);
    return PlainView{
        nchw,
        {InBlocks(n, strides[1], stored[2], strides[2]),
         InBlocks(c, row * static_cast<uint64_t>(h), stored[3], strides[3]),
         Whole(h, row), Whole(w, strides[0])}};
  }
  return std::nullopt;
}

// `order` has the positions of N, C, H and W in the stored shape.
std::optional<PlainView> Permute(const Shape& stored, const Shape& original,
                                 const std::vector<size_t>& order) {
  if (stored.size() != order.size() || original.size() != order.size()) {
    return std::nullopt;
  }
  const std::vector<Axis> axes = RowMajorAxes(stored);
  PlainView view;
  for (const size_t place : order) {
    view.shape.push_back(stored[place]);
    view.axes.push_back(axes[place]);
  }
  return view;
}

}  // namespace

std::optional<PlainView> ViewAsPlain(int64_t format, int64_t groups,
                                     const std::vector<int64_t>& stored,
                                     const std::vector<int64_t>& original) {
  switch (format) {
    case kFormatFractalNz:
    case kFormatFractalNzC016:
    case kFormatFractalNzC032:
      return ViewNz(stored, original);
    case kFormatNc1hwc0:
    case kFormatNc1hwc0C04:
      return ViewNc1hwc0(stored, original);
    case kFormatNdc1hwc0:
      return ViewNdc1hwc0(stored, original);
    case kFormatFractalZ:
      // Groups of a convolution are stored side by side in an order of their
      // own.
      if (groups > 1) return std::nullopt;
      return ViewFractalZ(stored, original);
    case kFormatNhwc:
      return Permute(stored, original, {0, 3, 1, 2});
    case kFormatHwcn:
      return Permute(stored, original, {3, 2, 0, 1});
    default:
      return std::nullopt;
  }
}

}  // namespace msitd::formats
