// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Deleted runs that still have data in the index. They are not visible, and
// their data is removed step by step. Thread-safe. Changes take two steps, as
// in RunTable.
class GoneTable {
 public:
  enum class Stage : uint8_t {
    kHidden = 0,   // The name is removed; the entries still exist.
    kEmptied = 1,  // The entries are removed; their space may not be reclaimed
                   // yet.
  };

  explicit GoneTable(IndexDb& db) : db_(db) {}

  // Reads all marks. Must be called once, before everything else.
  absl::Status Load();

  struct Gone {
    RunId run{};
    Stage stage = Stage::kHidden;
  };
  // Returns a run in the earliest stage; nothing if there is none.
  std::optional<Gone> First();
  bool Contains(RunId run);
  // True if the run is hidden and its entries still exist.
  bool IsHidden(RunId run);
  // Returns the emptied runs, ascending by id.
  std::vector<RunId> Emptied();

  void AppendTo(rocksdb::WriteBatch& batch, const Gone& gone) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;
  void Accept(const Gone& gone);
  void AcceptRemoval(RunId run);

 private:
  IndexDb& db_;

  Mutex mu_;
  std::map<uint64_t, Stage> runs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
