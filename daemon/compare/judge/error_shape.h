// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::compare {

// How an error changes a tensor as a whole. Independent errors of the elements
// change it by much less than they change each element.
struct ErrorShape {
  double norm = 0;  // ||target|| / ||golden|| - 1.
  // (mean of target - mean of golden) sqrt(number of elements) / ||golden||.
  double mean = 0;
};

}  // namespace msitd::compare
