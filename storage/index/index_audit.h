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

// What an inspection reads of the index besides the faces that the store
// uses.
namespace msitd::storage {

// An entry of the primary index. `value` is nothing if it cannot be read.
struct AuditedEntry {
  IndexKey key;
  std::optional<IndexValue> value;
};

// Calls `visit` for every entry in the order of keys.
absl::Status ForEachEntry(
    ChunkIndex& index,
    const std::function<absl::Status(const AuditedEntry&)>& visit);

// Returns "runs/r/ranks/0/..." for a key, and "#7" for names and runs that the
// index does not know, with the part behind it if it is not the first.
std::string DescribeKey(ChunkIndex& index, const IndexKey& key);

}  // namespace msitd::storage
