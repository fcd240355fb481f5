// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "client/ask/query/outcome.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::ask {

class Connection;

// The metrics that the daemon itself has. Some daemons report only their names.
std::vector<v1::Metric> MetricsOf(const v1::Capabilities& capabilities);
Outcome GetMetrics(Connection& connection, std::vector<v1::Metric>& metrics);

}  // namespace msitd::ask
