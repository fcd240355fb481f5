// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name/glob_names.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <utility>

#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"
#include "storage/index/name/name_table.h"
#include "storage/index/name/work_meter.h"

namespace msitd::storage {

absl::StatusOr<std::shared_ptr<const GlobNames::Numbers>> GlobNames::Find(
    std::string_view pattern, int64_t& units_left) {
  Known known = Recall(pattern);
  const uint32_t next = known.next;
  MSITD_ASSIGN_OR_RETURN(const bool is_complete,
                         Extend(pattern, known, units_left));
  std::shared_ptr<const Numbers> out = is_complete ? known.matches : nullptr;
  if (known.next != next) Keep(pattern, std::move(known));
  return out;
}

GlobNames::Known GlobNames::Recall(std::string_view pattern) {
  const MutexLock lock(mu_);
  const auto found = known_.find(pattern);
  return found == known_.end() ? Known() : found->second;
}

absl::StatusOr<bool> GlobNames::Extend(std::string_view pattern, Known& known,
                                       int64_t& units_left) {
  const auto it = db_.Iterate(Table::kName, rocksdb::ReadOptions());
  std::shared_ptr<Numbers> matches;
  uint32_t number = 0;
  bool is_complete = true;
  for (it->Seek(NumberKey(known.next));
       it->Valid() && IsNumberKey(it->key().ToStringView(), number);
       it->Next()) {
    is_complete = number <= kNamesMax && units_left > 0;
    if (!is_complete) break;
    known.next = number + 1;
    // Stacks of records also have numbers.
    if (it->value().size() > kOpBytesMax) continue;
    uint64_t steps = 0;
    const bool is_match = GlobMatch(pattern, it->value().ToStringView(), steps);
    units_left -= static_cast<int64_t>(1 + steps / kGlobStepsPerUnit);
    if (!is_match) continue;
    if (matches == nullptr) matches = std::make_shared<Numbers>(*known.matches);
    matches->push_back(number);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read names"));
  if (matches != nullptr) known.matches = std::move(matches);
  return is_complete;
}

void GlobNames::Keep(std::string_view pattern, Known known) {
  const MutexLock lock(mu_);
  auto found = known_.find(pattern);
  if (found != known_.end() && found->second.next >= known.next) return;
  const size_t added = known.matches->size();
  const size_t replaced =
      found == known_.end() ? 0 : found->second.matches->size();
  if (known_.size() + (found == known_.end()) > kPatternsMax ||
      number_count_ - replaced + added > kNumbersMax) {
    known_.clear();
    number_count_ = added;
    known_.emplace(pattern, std::move(known));
    return;
  }
  number_count_ += added - replaced;
  if (found == known_.end()) {
    known_.emplace(pattern, std::move(known));
  } else {
    found->second = std::move(known);
  }
}

}  // namespace msitd::storage
