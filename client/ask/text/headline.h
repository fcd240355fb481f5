// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/text/conclusion.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// Returns the result of a comparison in one or two sentences without terms of
// this project: whether the runs differ, from which op on, and how many tensors
// fail. Printable. Empty if the comparison has not finished.
// The findings (FindingTexts) have the details.
std::string Headline(const v1::Comparison& comparison, Allowed allowed);

}  // namespace msitd::ask
