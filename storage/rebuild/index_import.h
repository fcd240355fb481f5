// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/index/chunk_index.h"
#include "storage/rebuild/index_salvage.h"
#include "storage/rebuild/run_choice.h"

namespace msitd::storage {

// What of an old index was put into a new one, and what was not.
struct ImportCounts {
  uint64_t comparison_count = 0;
  // Comparisons without their document.
  uint64_t lost_comparison_count = 0;
  // Comparisons of whose rows some are missing: rows end before the first gap.
  uint64_t cut_comparison_count = 0;
  uint64_t attachment_count = 0;
  uint64_t lost_attachment_count = 0;
};

// Copies what follows from no frame into a new index: runs, coverage,
// attachments, comparisons, marks of bytes that were given up, places of shared
// bytes and counters of numbers. Values that cannot be decoded are left out.
//
// The new index does not see the entries until it is opened again.
absl::StatusOr<ImportCounts> ImportOldIndex(IndexSalvage& old,
                                            const RunChoice& runs,
                                            IndexDb& into);

}  // namespace msitd::storage
