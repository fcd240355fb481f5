// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msit/tensor/tensor.h"

namespace msitd::msit_command {

// The tensor as torch prints it with its default options: four digits, lines
// of 80 characters, and `...` for most of more than 1000 elements. `numbers`:
// NumbersOf.
std::string TensorText(const Tensor& tensor,
                       const std::vector<double>& numbers);

// Minimum, maximum, mean, standard deviation and variance as a grid of text.
// Each is rounded to the type that torch computes it in: that of a float
// tensor, else float32. There is at least one number.
std::string StatisticsGrid(const Tensor& tensor,
                           const std::vector<double>& numbers);

}  // namespace msitd::msit_command
