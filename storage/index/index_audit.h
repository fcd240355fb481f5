// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "storage/index/chunk_index.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"

// Reads the index for inspection, bypassing the interfaces of the store.
namespace msitd::storage {

// An entry of the primary index. `value` is empty if it cannot be decoded.
struct AuditedEntry {
  IndexKey key;
  std::optional<IndexValue> value;
};

// Calls `visit` for every entry in the order of keys.
absl::Status ForEachEntry(
    ChunkIndex& index,
    const std::function<absl::Status(const AuditedEntry&)>& visit);

// Returns the name of the tensor, such as "runs/r/ranks/0/...", followed by the
// part unless it is the first one. Unknown names and runs are replaced by their
// number, such as "#7".
std::string DescribeKey(ChunkIndex& index, const IndexKey& key);

}  // namespace msitd::storage
