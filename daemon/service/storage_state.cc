// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/storage_state.h"

namespace msitd::service {

v1::NodeStatus::StorageState StorageStateOf(ingest::StorageState state,
                                            const storage::StoreStats& store) {
  switch (state) {
    case ingest::StorageState::kOk:
      break;
    case ingest::StorageState::kFull:
      return v1::NodeStatus::FULL;
    case ingest::StorageState::kFailed:
      return v1::NodeStatus::FAILED;
  }
  if (store.is_read_only) return v1::NodeStatus::DEGRADED;
  if (!store.refusal.empty()) return v1::NodeStatus::FAILED;
  return store.missing.count > 0 ? v1::NodeStatus::DEGRADED
                                 : v1::NodeStatus::OK;
}

}  // namespace msitd::service
