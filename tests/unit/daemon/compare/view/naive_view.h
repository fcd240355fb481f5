// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "daemon/compare/view/view_plan.h"

namespace msitd::compare {

// An array whose elements are moved one by one, as a reference for views.
struct NaiveArray {
  std::vector<int64_t> shape;
  std::vector<uint64_t> values;  // In row-major order.

  // Returns the array of this shape whose elements are those at the positions
  // that `from` returns.
  NaiveArray Pick(
      std::vector<int64_t> new_shape,
      const std::function<std::vector<int64_t>(const std::vector<int64_t>&)>&
          from) const;

  uint64_t At(const std::vector<int64_t>& position) const;
};

// A random view of an array, as text and as the array that it must result in.
struct RandomView {
  std::string text;
  NaiveArray result;
};

// Makes up a view of up to `steps` steps of the first array. `leaf` is another
// tensor, named `k`, which has the same shape.
RandomView MakeRandomView(const NaiveArray& array, const NaiveArray& leaf,
                          int steps, std::mt19937& random);

// Returns an array with the numbers from `first`.
NaiveArray Numbered(std::vector<int64_t> shape, uint64_t first = 0);

// Returns a shape with up to four dimensions of up to six elements.
std::vector<int64_t> RandomShape(std::mt19937& random);

}  // namespace msitd::compare
