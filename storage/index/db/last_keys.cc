// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/last_keys.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
absl::StatusOr<std::string_view> LastKeys::Find(const EncodedKey& key) {
  const std::string prefix(DevicePrefix(key));
  if (const auto it = last_.find(prefix); it != last_.end()) return it->second;
  EncodedKey greatest;
  greatest.fill('\xff');
  std::copy(prefix.begin(), prefix.end(), greatest.begin());
  const auto it = db_.Iterate(Table::kTensor, rocksdb::ReadOptions());
  it->SeekForPrev(View(greatest));
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
  std::string last;
  if (it->Valid() && it->key().starts_with(prefix)) last = it->key().ToString();
  if (last_.size() >= kEntriesMax) last_.clear();
  return last_.emplace(prefix, std::move(last)).first->second;
}

void LastKeys::Accept(const EncodedKey& key) {
  const auto it = last_.find(std::string(DevicePrefix(key)));
  if (it != last_.end() && it->second < View(key)) it->second = View(key);
}

}  // namespace msitd::storage
