// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msit/tensor/tensor.h"

namespace msitd::msit_command {

// Returns the tensor as torch prints it with its default options: four digits,
// lines of 80 characters, and `...` for most of more than 1000 elements.
// `numbers` is the result of NumbersOf.
std::string TensorText(const Tensor& tensor,
                       const std::vector<double>& numbers);

// Returns minimum, maximum, mean, standard deviation and variance as a text
// grid. Each is rounded to the type in which torch computes it: that of a float
// tensor, otherwise float32. There is at least one number.
std::string StatisticsGrid(const Tensor& tensor,
                           const std::vector<double>& numbers);

}  // namespace msitd::msit_command
