// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name/name_sweep.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "storage/index/name/placement_table.h"

namespace msitd::storage {

void NameSweep::Begin() {
  if (begin_ == 1) all_end_ = names_.next_id();
  end_ = begin_ + std::min(kNamesPerPass, all_end_ - begin_);
  next_ = begin_;
  last_key_.clear();
  has_placements_ = false;
  names_.Watch(begin_, end_);
}

absl::Status NameSweep::LookAtPlacements() {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const auto it = db_.Iterate(Table::kRun, options);
  uint32_t name = 0;
  for (it->Seek(PlacementTable::KeyBegin());
       it->Valid() && PlacementTable::IsKey(it->key().ToStringView(), name);
       it->Next()) {
    names_.Use(name);
  }
  return ToStatus(it->status(), "read placements");
}

absl::StatusOr<bool> NameSweep::Look() {
  if (!has_placements_) {
    MSITD_RETURN_IF_ERROR(LookAtPlacements());
    has_placements_ = true;
  }
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const auto it = db_.Iterate(Table::kTensor, options);
  it->Seek(last_key_);
  IndexKey before;
  IndexValue value;
  std::vector<uint32_t> used;
  for (int i = 0; i < kEntriesPerStep && it->Valid(); ++i, it->Next()) {
    const auto key = DecodeIndexKey(it->key().ToStringView());
    if (!key.has_value()) return IndexCorrupt("tensor");
    // Adjacent entries mostly have the same names.
    if (key->device != before.device) used.push_back(key->device);
    if (key->op != before.op) used.push_back(key->op);
    if (key->index != before.index) used.push_back(key->index);
    before = *key;
    if (!HasExtras(it->value().ToStringView())) continue;
    if (!DecodeIndexValue(it->value().ToStringView(), value)) {
      return IndexCorrupt("tensor");
    }
    used.insert(used.end(), {value.stack, value.alias_op, value.alias_index});
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
  names_.Use(used);
  if (!it->Valid()) return true;
  last_key_ = it->key().ToString();
  return false;
}

absl::StatusOr<bool> NameSweep::Remove() {
  const uint32_t end = next_ + std::min(kNamesPerStep, end_ - next_);
  MSITD_RETURN_IF_ERROR(names_.RemoveUnused(next_, end));
  next_ = end;
  if (next_ < end_) return false;
  names_.EndWatch();
  begin_ = end_ < all_end_ ? end_ : 1;
  return true;
}

}  // namespace msitd::storage
