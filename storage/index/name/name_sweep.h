// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/name/name_table.h"

namespace msitd::storage {

// Finds names that no tensor has any more and removes them: one pass over the
// index, in steps. Names that somebody asks for meanwhile count as used.
//
// Single-sequence. A crash undoes some of it, and the next pass does it again.
class NameSweep {
 public:
  // Entries that a step looks at: some 20 ms of work.
  static constexpr int kEntriesPerStep = 1 << 16;
  // Names that a step looks at while nothing is appended.
  static constexpr uint32_t kNamesPerStep = 512;
  // Names of a pass, for each of which it takes a bit of memory. Others are for
  // the next one.
  static constexpr uint32_t kNamesPerPass = uint32_t{1} << 26;

  NameSweep(IndexDb& db, NameTable& names) : db_(db), names_(names) {}

  // Begins a pass. Nothing may be on its way into the index.
  void Begin();

  // Looks at the next entries; true once all have been seen.
  absl::StatusOr<bool> Look();

  // Removes names, once all entries have been seen; true once nothing is left
  // to do. Nothing may be on its way into the index.
  absl::StatusOr<bool> Remove();

  // True if all names have been looked at that were there when the first of the
  // passes began.
  bool is_whole() const { return begin_ == 1; }

 private:
  absl::Status LookAtPlacements();

  IndexDb& db_;
  NameTable& names_;
  uint32_t all_end_ = 1;
  uint32_t begin_ = 1;  // Of the names of the pass.
  uint32_t end_ = 1;
  uint32_t next_ = 1;  // The first one that may still have to go.
  std::string last_key_;
  bool has_placements_ = false;
};

}  // namespace msitd::storage
