// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Progress of the verification of stored bytes.
struct VerifyMark {
  uint64_t next_segment = 0;  // Next segment of the current round; 0 if there
                              // is none.
  int64_t round_end_ns = 0;   // End of the last round; 0 if there was none.
  // Faults were found. They are known only to the process that found them, so
  // the next process begins a round immediately.
  bool has_findings = false;
};

// Stores the mark, so that a round continues after a restart. Thread-safe.
class VerifyTable {
 public:
  explicit VerifyTable(IndexDb& db) : db_(db) {}

  // Returns a mark of zeros if none was ever written, or if it cannot be read:
  // then a new round begins, which is harmless.
  absl::StatusOr<VerifyMark> Mark();
  // Survives the process.
  absl::Status SetMark(const VerifyMark& mark);

 private:
  IndexDb& db_;
};

}  // namespace msitd::storage
