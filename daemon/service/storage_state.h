// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/ingest/ingest_pipeline.h"
#include "msitd/v1/node_service.pb.h"
#include "storage/face/types.h"

namespace msitd::service {

// Returns the state of the storage, for the node status and for the metrics.
// `state` is that of the last write. A state in which chunks are refused takes
// precedence over one in which they are not, except that a store which is open
// for reading only is DEGRADED.
v1::NodeStatus::StorageState StorageStateOf(ingest::StorageState state,
                                            const storage::StoreStats& store);

}  // namespace msitd::service
