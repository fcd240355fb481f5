// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/name/name_table.h"

namespace msitd::storage {

// Finds and removes names that no tensor uses any more. A pass iterates over
// all entries of the index in steps and marks the names that they use; then it
// removes all other names. A name that is looked up during the pass counts as
// used, because its tensor may be about to be indexed.
//
// Must be used by one thread at a time. A crash may undo some removals; the
// next pass repeats them.
class NameSweep {
 public:
  // Number of entries per step, about 20 ms of work.
  static constexpr int kEntriesPerStep = 1 << 16;
  // Number of names per step during which nothing can be appended.
  static constexpr uint32_t kNamesPerStep = 512;
  // Maximum number of names per pass, which needs one bit of memory for each.
  // The next pass handles the names after them.
  static constexpr uint32_t kNamesPerPass = uint32_t{1} << 26;

  NameSweep(IndexDb& db, NameTable& names) : db_(db), names_(names) {}

  // Begins a pass. Nothing may be in the process of being indexed.
  void Begin();

  // Examines the next entries; true when all have been examined.
  absl::StatusOr<bool> Look();

  // Removes unused names after Look has examined all entries; true when the
  // pass is complete. Nothing may be in the process of being indexed.
  absl::StatusOr<bool> Remove();

  // True if the passes so far have covered all names that existed when the
  // first pass began.
  bool is_whole() const { return begin_ == 1; }

 private:
  absl::Status LookAtPlacements();

  IndexDb& db_;
  NameTable& names_;
  uint32_t all_end_ = 1;
  uint32_t begin_ = 1;  // The names of the pass: [begin_, end_).
  uint32_t end_ = 1;
  uint32_t next_ = 1;  // The first name that may still have to be removed.
  std::string last_key_;
  bool has_placements_ = false;
};

}  // namespace msitd::storage
