// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Flags for rows whose shapes are those of a whole and of a piece, from their
// `layout_hint`, each once: a number that stands alone in an op becomes `*`
// where all such ops have the same layout. What has no layout after these is
// the same on all ranks: a last flag for each side says so.
std::vector<std::string> LayoutFlagsOf(const std::vector<std::string>& hints);

// The same as one flag for each side, if there are too many of those: the sizes
// of the other side say how each tensor is cut.
std::vector<std::string> FitFlagsOf(const std::vector<std::string>& hints);

// Says what such flags would make comparable, and what would no longer be
// checked: lines that end.
std::string LayoutEffectText(const std::vector<std::string>& hints);

// Says on stderr with which flags a comparison may do better, if rows of it
// have hints.
void TellLayoutHints(const v1::Comparison& comparison);

}  // namespace msitd::msitctl
