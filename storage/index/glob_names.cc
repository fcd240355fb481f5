// SPDX-License-Identifier: Apache-2.0
#include "storage/index/glob_names.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <utility>

#include "protos/base/glob.h"
#include "protos/status/status.h"
#include "storage/index/name_table.h"

namespace msitd::storage {

absl::StatusOr<std::shared_ptr<const GlobNames::Numbers>> GlobNames::Find(
    std::string_view pattern) {
  const MutexLock lock(mu_);
  auto found = known_.find(pattern);
  if (found == known_.end()) {
    if (known_.size() == kPatternsMax) known_.clear();
    found = known_.emplace(pattern, Known()).first;
  }
  Known& known = found->second;
  MSITD_RETURN_IF_ERROR(Extend(pattern, known));
  return known.next > kNamesMax ? nullptr : known.matches;
}

absl::Status GlobNames::Extend(std::string_view pattern, Known& known) {
  const auto it = db_.Iterate(Table::kName, rocksdb::ReadOptions());
  std::shared_ptr<Numbers> matches;
  uint32_t number = 0;
  for (it->Seek(NumberKey(known.next));
       known.next <= kNamesMax && it->Valid() &&
       IsNumberKey(it->key().ToStringView(), number);
       it->Next()) {
    known.next = number + 1;
    if (!GlobMatch(pattern, it->value().ToStringView())) continue;
    if (matches == nullptr) matches = std::make_shared<Numbers>(*known.matches);
    matches->push_back(number);
  }
  if (matches != nullptr) known.matches = std::move(matches);
  return ToStatus(it->status(), "read names");
}

}  // namespace msitd::storage
