// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msitd/v1/comparison_service.pb.h"
#include "protos/bounds/bound_share.h"

namespace msitd::web {

// Returns a row as one JSON object for the page, with the texts of the HTML
// report: `reason`, `shape`, `pairing` and others. Numbers that JSON does not
// have are the texts `nan`, `inf` and `-inf`. Foreign text is not changed, so
// the page must not interpret it.
std::string RowJson(const v1::ComparisonRow& row, const Bounds& bounds);

// Returns a number for JSON, with at most `digits` significant digits. 0: as
// many as the number has. NaN and the infinities are the texts `nan`, `inf` and
// `-inf`, with quotes.
std::string NumberJson(double value, int digits = 0);

// Returns `text` as a JSON string. Bytes that are not UTF-8 are replaced.
std::string QuotedJson(const std::string& text);

}  // namespace msitd::web
