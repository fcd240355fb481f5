// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/foreign/match/graph_text.h"
#include "client/foreign/match/name_parts.h"

namespace msitd::match {

// Returns the names of the ops of a graph, which must outlive the result; none
// for null.
NameParts PartsOf(const GeGraph* graph);

// Returns true for an op that GE inserts to convert a tensor to another layout
// or type. It changes values only by rounding.
bool IsConversion(std::string_view op);

// Why such an op has no counterpart in another run.
inline constexpr std::string_view kConversionReason =
    "inserted by GE; only comparable with the same run";

}  // namespace msitd::match
