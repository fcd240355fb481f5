// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/verify_table.h"

#include <rocksdb/write_batch.h>

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kMarkKey = "verify";
constexpr uint8_t kMarkVersion = 1;

}  // namespace

absl::StatusOr<VerifyMark> VerifyTable::Mark() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kMeta, kMarkKey));
  if (!value.has_value()) return VerifyMark();
  ByteReader reader(*value);
  VerifyMark mark;
  const bool is_known = reader.GetByte() == kMarkVersion;
  mark.next_segment = reader.GetVarint();
  mark.round_end_ns = reader.GetSigned();
  mark.has_findings = reader.GetByte() != 0;
  return is_known && reader.done() ? mark : VerifyMark();
}

absl::Status VerifyTable::SetMark(const VerifyMark& mark) {
  std::string value;
  ByteWriter writer(value);
  writer.PutByte(kMarkVersion);
  writer.PutVarint(mark.next_segment);
  writer.PutSigned(mark.round_end_ns);
  writer.PutByte(mark.has_findings ? 1 : 0);
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kMeta, kMarkKey, value);
  return db_.WriteLogged(batch);
}

}  // namespace msitd::storage
