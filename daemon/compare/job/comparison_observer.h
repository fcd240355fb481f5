// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/compare/work_observer.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// Receives the results of one comparison from its engine. All functions except
// is_over are called on the thread that runs the comparison.
class ComparisonObserver : public WorkObserver {
 public:
  // The message of the comparison, which must exist as long as the engine. The
  // engine keeps its header up to date: the findings before the row that
  // changes them, and the state of the runs each time it reads them.
  virtual v1::Comparison& header() = 0;

  // Called with the next row, which has its number but no metrics. `bytes` is
  // the complete row, with metrics, in wire format. `row` is valid only during
  // the call. An error ends the comparison.
  virtual absl::Status OnRow(const v1::ComparisonRow& row,
                             std::string bytes) = 0;
};

}  // namespace msitd::compare
