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

// Deleted runs of which the index still holds something. Nobody sees them, and
// what is left of them goes step by step. Thread-safe. Changes take two steps,
// as in RunTable.
class GoneTable {
 public:
  enum class Stage : uint8_t {
    kHidden = 0,   // Its name has gone; its entries have not.
    kEmptied = 1,  // Its entries have gone; maybe not their room.
  };

  explicit GoneTable(IndexDb& db) : db_(db) {}

  // Reads all marks. Called once, before anything else.
  absl::Status Load();

  struct Gone {
    RunId run{};
    Stage stage = Stage::kHidden;
  };
  // Returns a run of the earliest stage; nothing if there is none.
  std::optional<Gone> First();
  bool Contains(RunId run);
  // True if the run is hidden: its entries are still there.
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
