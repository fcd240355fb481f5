// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_records.h"

#include "client/foreign/names/msprobe_names.h"
#include "protos/base/order_label.h"
#include "protos/status/status.h"

namespace msitd::trees {

absl::StatusOr<bool> MsprobeRecords::Next() {
  if (!is_in_data_) MSITD_RETURN_IF_ERROR(FindData());
  MSITD_ASSIGN_OR_RETURN(const JsonToken token, reader_.Next());
  if (token == JsonToken::kKey) {
    name_ = reader_.text();
    return true;
  }
  MSITD_RETURN_IF_ERROR(reader_.LeaveTo(0));
  // Reports text after the value that is not JSON.
  MSITD_RETURN_IF_ERROR(reader_.Next().status());
  return false;
}

absl::StatusOr<JsonValue> MsprobeRecords::Read(bool* is_broken) {
  auto record = ReadJsonValue(reader_);
  *is_broken = !record.ok() && !reader_.LeaveTo(kDepthOfRecords).ok();
  return record;
}

bool MsprobeRecords::IsUnordered() {
  return (is_in_data_ || FindData().ok()) && is_unordered_;
}

void MsprobeRecords::KeepMember(std::string_view key, JsonToken token) {
  if (token != JsonToken::kString) return;
  if (key == "task") task_ = reader_.text();
  is_unordered_ = is_unordered_ || (key == names::kMsprobeOrder &&
                                    reader_.text() == kUnknownOrder);
}

absl::Status MsprobeRecords::FindData() {
  MSITD_ASSIGN_OR_RETURN(JsonToken token, reader_.Next());
  if (token != JsonToken::kObjectBegin) {
    return absl::InvalidArgumentError("it is not an object");
  }
  for (;;) {
    MSITD_ASSIGN_OR_RETURN(token, reader_.Next());
    if (token != JsonToken::kKey) {
      return absl::InvalidArgumentError("it has no data");
    }
    const std::string key = reader_.text();
    MSITD_ASSIGN_OR_RETURN(token, reader_.Next());
    if (key == "data") break;
    KeepMember(key, token);
    MSITD_RETURN_IF_ERROR(reader_.LeaveTo(1));
  }
  if (token != JsonToken::kObjectBegin) {
    return absl::InvalidArgumentError("its data is not an object");
  }
  is_in_data_ = true;
  return absl::OkStatus();
}

}  // namespace msitd::trees
