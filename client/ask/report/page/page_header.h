// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/report/page/html_report.h"

// What stands over the rows of the HTML report.
namespace msitd::ask {

// One line, which may lead to a row. Printable.
struct PageFact {
  std::string label;
  std::string text;
  int64_t row = -1;  // -1 for none.
};

// What was found out: the first divergence, who made it, what would pass, and
// how many rows were not compared.
std::vector<PageFact> FindingFacts(const v1::Comparison& comparison);

// What was compared with what: runs, date, policy.
std::vector<PageFact> SetupFacts(const v1::Comparison& comparison,
                                 const PageFacts& page);

}  // namespace msitd::ask
