// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msitd/v1/comparison_service.pb.h"

// Properties of a row as pages show them. Foreign text in them is not
// Printable.
namespace msitd::ask {

// Returns the dtype of both sides, such as `float32`, or `float32/bfloat16` if
// they differ; `-` for a side that is absent. A value has its kind instead.
std::string DTypesText(const v1::ComparisonRow& row);

// The same for shapes, such as `[2, 3]`. A value has itself instead.
std::string ShapesText(const v1::ComparisonRow& row);

// Returns the target tensor, and why it is paired with the golden one; empty if
// the name shows this.
std::string PairingText(const v1::ComparisonRow& row);

// Flags for NaN and infinities in a row, which are added.
inline constexpr int kTargetNonFinite = 1;
inline constexpr int kGoldenNonFinite = 2;

int NonFiniteFlags(const v1::ComparisonRow& row);

}  // namespace msitd::ask
