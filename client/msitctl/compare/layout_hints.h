// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Returns the flags for rows whose shapes are those of a whole tensor and of a
// piece, from their `layout_hint`, without duplicates. A separate number in an
// op becomes `*` if all such ops have the same layout. Tensors without a layout
// after these flags are the same on all ranks, which a last flag for each side
// states.
std::vector<std::string> LayoutFlagsOf(const std::vector<std::string>& hints);

// Returns one flag for each side instead if there are too many of these flags.
// The sizes of the other side then determine how each tensor is divided.
std::vector<std::string> FitFlagsOf(const std::vector<std::string>& hints);

// Returns what such flags would make comparable, and what would no longer be
// checked, as complete lines.
std::string LayoutEffectText(const std::vector<std::string>& hints);

// Prints on stderr the flags with which more rows of a comparison could be
// compared, if rows of it have hints.
void TellLayoutHints(const v1::Comparison& comparison);

}  // namespace msitd::msitctl
