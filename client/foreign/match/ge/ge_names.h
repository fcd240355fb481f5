// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/foreign/match/graph_text.h"
#include "client/foreign/match/name_parts.h"

namespace msitd::match {

// The names of the ops of a graph; it must outlive them. None for null.
NameParts PartsOf(const GeGraph* graph);

// True for an op that GE puts in to have a tensor in another layout or type. It
// changes no value but by rounding.
bool IsConversion(std::string_view op);

// Why such an op has no counterpart in another run.
inline constexpr std::string_view kConversionReason =
    "GE put it in; compare the run with itself";

}  // namespace msitd::match
