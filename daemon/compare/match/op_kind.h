// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Recognizes kinds of ops by their names. docs/comparison_details.md lists the
// spellings.
namespace msitd::compare {

// Returns whether an op is a norm that subtracts the mean of its input.
bool SubtractsMean(std::string_view op);

// Return whether an op is a function of torch that computes a sum or
// difference, or a mean. Means are also sums.
bool IsSum(std::string_view op);
bool IsMean(std::string_view op);

// Returns whether an op is a function of torch that multiplies tensors element
// by element.
bool IsElementwiseProduct(std::string_view op);

// Returns whether an op is a function of torch that multiplies matrices.
bool IsProduct(std::string_view op);

// Returns whether an op is a function of torch that computes a sine or a
// cosine.
bool IsSineOrCosine(std::string_view op);

}  // namespace msitd::compare
