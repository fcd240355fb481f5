// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {

// Adds the log position to `batch`, together with the entries that it covers.
void AppendPositionTo(rocksdb::WriteBatch& batch, const IndexDb& db,
                      const LogPosition& position);

// Returns the log position of the store; that of an empty log if it has none.
absl::StatusOr<LogPosition> LoadPosition(IndexDb& db);

// The segment with the newest acknowledged frames. The position does not show
// that later segments exist. With this entry, a start detects that their files
// are missing, and does not reuse their numbers.
struct NewestSegment {
  uint64_t segment_id = 0;  // Number of the segment; 0 if there is none.
  // True if the index on disk has all frames of the log.
  bool is_indexed = true;

  bool operator==(const NewestSegment& other) const = default;
};

std::string EncodeNewestSegment(const NewestSegment& newest);
bool DecodeNewestSegment(std::string_view bytes, NewestSegment& out);

// Returns the newest segment of the store; none if the log is empty, or if only
// older programs have written it.
absl::StatusOr<NewestSegment> LoadNewestSegment(IndexDb& db);
// Durable on return.
absl::Status StoreNewestSegment(IndexDb& db, const NewestSegment& newest);

}  // namespace msitd::storage
