// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/report/page/html_report.h"

// The header of the HTML report, above the rows.
namespace msitd::ask {

// One line, which may lead to a row. Printable.
struct PageFact {
  std::string label;
  std::string text;
  int64_t row = -1;  // -1 for none.
};

// Returns the finding in one or two sentences, or the state of a comparison
// that has none. Printable.
std::string TitleText(const v1::Comparison& comparison);

// Returns a time such as `2026-11-22T15:32:09Z`.
std::string TimeText(google::protobuf::Timestamp time);

// Returns the findings: the first divergence, its cause, the tolerances that
// would pass, and the number of rows that were not compared.
std::vector<PageFact> FindingFacts(const v1::Comparison& comparison);

// Returns the setup of the comparison: runs, date, policy.
std::vector<PageFact> SetupFacts(const v1::Comparison& comparison,
                                 const PageFacts& page);

}  // namespace msitd::ask
