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

// What a page says beside the comparison and its rows.
struct PageFacts {
  std::vector<v1::Metric> metrics;  // That the daemon has itself.
  // The runs as they are now; absent if they are gone.
  std::optional<v1::Run> golden;
  std::optional<v1::Run> target;
};

// One page with everything in it. `histograms`, which are there when Finish is
// called, outlive the writer.
std::unique_ptr<ReportWriter> MakeHtmlReport(PageFacts facts,
                                             const RowHistograms& histograms,
                                             ReportSink sink);

}  // namespace msitd::ask
