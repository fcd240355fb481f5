// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/doubled_records.h"

#include "client/foreign/fill/tensor_record.h"

namespace msitd::fill {

void DoubledRecords::Add(const TensorKey& key, const std::string& file) {
  if (listed_.size() == kListedMax) return;
  const uint64_t hash = HashOf(key);
  if (const auto found = places_.find(hash); found != places_.end()) {
    const std::string& former = files_[found->second];
    if (former != file) listed_.push_back({file, former, key.op});
    return;
  }
  if (places_.size() == kKeysMax) return;
  if (files_.empty() || files_.back() != file) files_.push_back(file);
  places_.emplace(hash, static_cast<uint32_t>(files_.size() - 1));
}

}  // namespace msitd::fill
