// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// How far the check of stored bytes has come.
struct VerifyMark {
  uint64_t next_segment = 0;  // Of the round under way; 0 if there is none.
  int64_t round_end_ns = 0;   // Of the last round; 0 if there was none.
  // Something was found. As only the process that found it knows what, the next
  // one begins a round at once.
  bool has_findings = false;
};

// Keeps the mark, so that a round goes on after a restart. Thread-safe.
class VerifyTable {
 public:
  explicit VerifyTable(IndexDb& db) : db_(db) {}

  // A mark of zeros if none was ever written, or if it cannot be read: then a
  // round begins anew, which does no harm.
  absl::StatusOr<VerifyMark> Mark();
  // Survives the process.
  absl::Status SetMark(const VerifyMark& mark);

 private:
  IndexDb& db_;
};

}  // namespace msitd::storage
