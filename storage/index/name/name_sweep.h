// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/name/name_table.h"

namespace msitd::storage {

// Finds names that no tensor has any more and removes them. One pass goes over
// all entries of the index in steps and marks the names that they use; then it
// removes the others. A name that is looked up meanwhile counts as used, since
// its tensor may be on its way.
//
// Single-sequence. A crash may undo some removals; the next pass repeats them.
class NameSweep {
 public:
  // Entries that a step looks at: some 20 ms of work.
  static constexpr int kEntriesPerStep = 1 << 16;
  // Names that a step looks at while nothing is appended.
  static constexpr uint32_t kNamesPerStep = 512;
  // The most names of a pass, which takes a bit of memory for each. The next
  // pass takes the names after them.
  static constexpr uint32_t kNamesPerPass = uint32_t{1} << 26;

  NameSweep(IndexDb& db, NameTable& names) : db_(db), names_(names) {}

  // Begins a pass. Nothing may be on its way into the index.
  void Begin();

  // Looks at the next entries; true once all have been seen.
  absl::StatusOr<bool> Look();

  // Removes unused names, once Look has seen all entries; true once the pass
  // has nothing left to do. Nothing may be on its way into the index.
  absl::StatusOr<bool> Remove();

  // True if the passes so far have covered all names that existed when the
  // first of them began.
  bool is_whole() const { return begin_ == 1; }

 private:
  absl::Status LookAtPlacements();

  IndexDb& db_;
  NameTable& names_;
  uint32_t all_end_ = 1;
  uint32_t begin_ = 1;  // The names of the pass: [begin_, end_).
  uint32_t end_ = 1;
  uint32_t next_ = 1;  // The first one that may still have to go.
  std::string last_key_;
  bool has_placements_ = false;
};

}  // namespace msitd::storage
