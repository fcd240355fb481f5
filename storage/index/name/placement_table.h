// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/name/name_table.h"

namespace msitd::storage {

// The placements of the tensors of each run. Thread-safe.
class PlacementTable {
 public:
  PlacementTable(IndexDb& db, NameTable& names) : db_(db), names_(names) {}

  // Returns RESOURCE_EXHAUSTED above kRunPlacementsMax.
  absl::StatusOr<std::vector<std::string>> List(RunId run);

  // Returns the common prefix of the keys of all runs.
  static std::string_view KeyBegin();
  // True if `key` is such a key; sets `name` to the number of its placement.
  static bool IsKey(std::string_view key, uint32_t& name);

  // `name` is the number of the placement. Adding it again has no effect.
  void AppendTo(rocksdb::WriteBatch& batch, RunId run, uint32_t name) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
  NameTable& names_;
};

}  // namespace msitd::storage
