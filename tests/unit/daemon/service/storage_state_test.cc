// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/storage_state.h"

#include <gtest/gtest.h>

namespace msitd::service {
namespace {

using ingest::StorageState;
using v1::NodeStatus;

TEST(StorageStateTest, RefusedChunksComeFirst) {
  storage::StoreStats store;
  EXPECT_EQ(StorageStateOf(StorageState::kOk, store), NodeStatus::OK);
  store.missing.count = 1;
  EXPECT_EQ(StorageStateOf(StorageState::kOk, store), NodeStatus::DEGRADED);
  store.refusal = "a segment is missing";
  EXPECT_EQ(StorageStateOf(StorageState::kOk, store), NodeStatus::FAILED);
  EXPECT_EQ(StorageStateOf(StorageState::kFull, store), NodeStatus::FULL);
  EXPECT_EQ(StorageStateOf(StorageState::kFailed, store), NodeStatus::FAILED);
}

TEST(StorageStateTest, AStoreThatIsOnlyReadIsDegraded) {
  storage::StoreStats store;
  store.refusal = "for reading only";
  store.is_read_only = true;
  EXPECT_EQ(StorageStateOf(StorageState::kOk, store), NodeStatus::DEGRADED);
}

}  // namespace
}  // namespace msitd::service
