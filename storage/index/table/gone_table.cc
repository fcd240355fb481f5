// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/gone_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <string>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

// Other kinds of keys in Table::kRun begin with other letters.
constexpr char kGoneTag = 'g';
constexpr size_t kKeyBytes = 9;

std::string KeyOf(RunId run) {
  return kGoneTag + BigEndianKey(static_cast<uint64_t>(run));
}

}  // namespace

absl::Status GoneTable::Load() {
  const std::string begin(1, kGoneTag);
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    uint8_t stage = 0;
    if (it->key().size() != kKeyBytes ||
        !DecodeGoneStage(it->value().ToStringView(), stage) ||
        stage > static_cast<uint8_t>(Stage::kEmptied)) {
      return IndexCorrupt("run");
    }
    Accept({RunId{GetBigEndian(it->key().data() + 1, 8)}, Stage{stage}});
  }
  return ToStatus(it->status(), "read deleted runs");
}

std::optional<GoneTable::Gone> GoneTable::First() {
  const MutexLock lock(mu_);
  const auto least = std::min_element(
      runs_.begin(), runs_.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least == runs_.end()) return std::nullopt;
  return Gone{RunId{least->first}, least->second};
}

bool GoneTable::Contains(RunId run) {
  const MutexLock lock(mu_);
  return runs_.contains(static_cast<uint64_t>(run));
}

bool GoneTable::IsHidden(RunId run) {
  const MutexLock lock(mu_);
  const auto it = runs_.find(static_cast<uint64_t>(run));
  return it != runs_.end() && it->second == Stage::kHidden;
}

std::vector<RunId> GoneTable::Emptied() {
  const MutexLock lock(mu_);
  std::vector<RunId> out;
  for (const auto& [run, stage] : runs_) {
    if (stage == Stage::kEmptied) out.push_back(RunId{run});
  }
  return out;
}

void GoneTable::AppendTo(rocksdb::WriteBatch& batch, const Gone& gone) const {
  db_.Put(batch, Table::kRun, KeyOf(gone.run),
          EncodeGoneStage(static_cast<uint8_t>(gone.stage)));
}

void GoneTable::AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const {
  db_.Delete(batch, Table::kRun, KeyOf(run));
}

void GoneTable::Accept(const Gone& gone) {
  const MutexLock lock(mu_);
  runs_[static_cast<uint64_t>(gone.run)] = gone.stage;
}

void GoneTable::AcceptRemoval(RunId run) {
  const MutexLock lock(mu_);
  runs_.erase(static_cast<uint64_t>(run));
}

}  // namespace msitd::storage
