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

// The placements that tensors of each run have. Thread-safe.
class PlacementTable {
 public:
  PlacementTable(IndexDb& db, NameTable& names) : db_(db), names_(names) {}

  // RESOURCE_EXHAUSTED above kRunPlacementsMax.
  absl::StatusOr<std::vector<std::string>> List(RunId run);

  // The bytes with which the keys of all runs begin.
  static std::string_view KeyBegin();
  // True if `key` is such a key; `name` is then the number of its placement.
  static bool IsKey(std::string_view key, uint32_t& name);

  // `name` is the number of the placement. Adding it again does nothing.
  void AppendTo(rocksdb::WriteBatch& batch, RunId run, uint32_t name) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
  NameTable& names_;
};

}  // namespace msitd::storage
