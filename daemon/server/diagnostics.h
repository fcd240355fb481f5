// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/config/daemon_config.h"
#include "daemon/server/node_metrics.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::server {

// Gathers what helps to find out what is wrong: the configuration, the metrics,
// the last lines of the log, the files of the store, and what the system says
// of the process. No bytes of tensors, and no names of them; some 2 MiB at
// most. Reads small files and directories.
v1::Diagnostics GatherDiagnostics(const config::DaemonConfig& config,
                                  const NodeMetrics& metrics);

}  // namespace msitd::server
