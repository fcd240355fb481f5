// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "client/ask/text/conclusion.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::ask {

// The files of Model Explorer that a report can be.
enum class ModelExplorerFile {
  // A collection with one graph: a node for each op, in the hierarchy of its
  // module path, with the counts and the worst row of the op as attributes.
  // Edges connect ops in execution order, because a comparison does not record
  // the flow of data.
  kGraph,
  // Data for the nodes of this graph: the verdict of each op, with a color.
  kNodeData,
};

// Returns a writer of JSON for Model Explorer, which displays large graphs of
// models in a browser. `metrics` are those of the daemon. The rows of all
// ranks, tokens and calls of an op are one node, so memory is needed for each
// op and not for each row.
std::unique_ptr<ReportWriter> MakeModelExplorerReport(
    ModelExplorerFile file, Allowed allowed,
    const std::vector<v1::Metric>& metrics, ReportSink sink);

}  // namespace msitd::ask
