// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_service.pb.h"

namespace msitd::ask {

class RowHistograms;

// Contents of a page in addition to the comparison and its rows.
struct PageFacts {
  std::vector<v1::Metric> metrics;  // The metrics of the daemon.
  // The current state of the runs; absent if they no longer exist.
  std::optional<v1::Run> golden;
  std::optional<v1::Run> target;
};

// Returns a writer for one self-contained page. `histograms` must be complete
// when Finish is called, and must outlive the writer.
std::unique_ptr<ReportWriter> MakeHtmlReport(PageFacts facts,
                                             const RowHistograms& histograms,
                                             ReportSink sink);

}  // namespace msitd::ask
