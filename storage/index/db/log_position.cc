// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/log_position.h"

#include <string>
#include <string_view>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kPositionKey = "log_position";

}  // namespace

void AppendPositionTo(rocksdb::WriteBatch& batch, const IndexDb& db,
                      const LogPosition& position) {
  db.Put(batch, Table::kMeta, kPositionKey, EncodePosition(position));
}

absl::StatusOr<LogPosition> LoadPosition(IndexDb& db) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db.Get(Table::kMeta, kPositionKey));
  LogPosition position;
  if (value.has_value() && !DecodePosition(*value, position)) {
    return IndexCorrupt("default");
  }
  return position;
}

}  // namespace msitd::storage
