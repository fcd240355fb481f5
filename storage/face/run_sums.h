// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "storage/face/types.h"

// Computes counts of a run from counts of its parts.
namespace msitd::storage {

inline RunCounters Sum(RunCounters a, const RunCounters& b) {
  a.tensor_count += b.tensor_count;
  a.payload_bytes += b.payload_bytes;
  a.duplicate_count += b.duplicate_count;
  a.conflict_count += b.conflict_count;
  a.dropped_count += b.dropped_count;
  a.truncated_count += b.truncated_count;
  a.headless_count += b.headless_count;
  a.token_end = std::max(a.token_end, b.token_end);
  a.expired_bytes += b.expired_bytes;
  a.missing_bytes += b.missing_bytes;
  a.unread_place_count += b.unread_place_count;
  a.value_count += b.value_count;
  a.document_count += b.document_count;
  a.statistics_count += b.statistics_count;
  a.dangling_count += b.dangling_count;
  return a;
}

inline StreamRepeats Sum(StreamRepeats a, const StreamRepeats& b) {
  a.repeated_count += b.repeated_count;
  a.conflict_count += b.conflict_count;
  a.dangling_count += b.dangling_count;
  a.claimed_count += b.claimed_count;
  a.checked_count += b.checked_count;
  a.false_count += b.false_count;
  return a;
}

}  // namespace msitd::storage
