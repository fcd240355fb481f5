// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/daemon_metrics.h"

#include <string>

#include "client/ask/query/connection.h"

namespace msitd::ask {

std::vector<v1::Metric> MetricsOf(const v1::Capabilities& capabilities) {
  std::vector<v1::Metric> metrics(capabilities.metric_table().begin(),
                                  capabilities.metric_table().end());
  if (!metrics.empty()) return metrics;
  for (const std::string& name : capabilities.metrics()) {
    metrics.emplace_back().set_name(name);
  }
  return metrics;
}

Outcome GetMetrics(Connection& connection, std::vector<v1::Metric>& metrics) {
  v1::Capabilities capabilities;
  MSITCTL_RETURN_IF_FAILED(
      connection.Ask(&v1::NodeService::Stub::GetCapabilities,
                     v1::GetCapabilitiesRequest(), capabilities));
  metrics = MetricsOf(capabilities);
  return {};
}

}  // namespace msitd::ask
