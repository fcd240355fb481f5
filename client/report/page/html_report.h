// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "client/report/report_writer.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::ctl {

class RowHistograms;

// One page with everything in it. `histograms`, which are there when Finish is
// called, outlive the writer.
std::unique_ptr<ReportWriter> MakeHtmlReport(std::vector<v1::Metric> metrics,
                                             const RowHistograms& histograms,
                                             ReportSink sink);

}  // namespace msitd::ctl
