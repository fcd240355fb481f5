// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {

// Puts the log position into `batch`, beside the entries that it covers.
void AppendPositionTo(rocksdb::WriteBatch& batch, const IndexDb& db,
                      const LogPosition& position);

// Returns the position of the store; that of an empty log if it has none.
absl::StatusOr<LogPosition> LoadPosition(IndexDb& db);

// Returns the newest segment of the store; none if the log is empty, or if only
// older programs have written it.
absl::StatusOr<NewestSegment> LoadNewestSegment(IndexDb& db);
// Durable on return.
absl::Status StoreNewestSegment(IndexDb& db, const NewestSegment& newest);

}  // namespace msitd::storage
