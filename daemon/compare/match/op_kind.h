// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Recognizes kinds of ops by their names. docs/comparison_details.md lists the
// spellings.
namespace msitd::compare {

// True for functions of torch, as their records are named.
bool IsFunction(std::string_view op);

// True for norms that subtract the mean of their input.
bool SubtractsMean(std::string_view op);

// True for functions of torch that compute a sum, a difference or a mean.
bool IsSum(std::string_view op);
bool IsMean(std::string_view op);

// True for functions of torch that multiply matrices.
bool IsProduct(std::string_view op);

// True for functions of torch that compute a sine or a cosine.
bool IsSineOrCosine(std::string_view op);

}  // namespace msitd::compare
