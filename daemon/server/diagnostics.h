// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/config/daemon_config.h"
#include "daemon/server/node_metrics.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::server {

// Collects information for troubleshooting: the configuration, the metrics, the
// last lines of the log, the files of the store, and what the system reports
// about the process. The result contains neither bytes nor names of tensors,
// and has at most about 2 MiB. Reads small files and directories.
v1::Diagnostics GatherDiagnostics(const config::DaemonConfig& config,
                                  const NodeMetrics& metrics);

}  // namespace msitd::server
