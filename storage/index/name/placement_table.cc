// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name/placement_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {
namespace {

// Other kinds of keys in Table::kRun begin with other letters.
constexpr char kPlacementTag = 'p';
constexpr size_t kNameBytes = 4;

}  // namespace

absl::StatusOr<std::vector<std::string>> PlacementTable::List(RunId run) {
  const std::string prefix =
      RunPrefix(kPlacementTag, static_cast<uint64_t>(run));
  std::vector<std::string> out;
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    if (it->key().size() != prefix.size() + kNameBytes) {
      return IndexCorrupt("run");
    }
    if (out.size() == kRunPlacementsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "the run has more than {} placements of tensors",
                        kRunPlacementsMax);
    }
    const auto name = static_cast<uint32_t>(
        GetBigEndian(it->key().data() + prefix.size(), kNameBytes));
    MSITD_ASSIGN_OR_RETURN(std::string text, names_.NameOf(name));
    out.push_back(std::move(text));
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read placements"));
  return out;
}

std::string_view PlacementTable::KeyBegin() {
  return std::string_view(&kPlacementTag, 1);
}

bool PlacementTable::IsKey(std::string_view key, uint32_t& name) {
  if (key.size() != 1 + 8 + kNameBytes || key[0] != kPlacementTag) return false;
  name = static_cast<uint32_t>(GetBigEndian(key.data() + 1 + 8, kNameBytes));
  return true;
}

void PlacementTable::AppendTo(rocksdb::WriteBatch& batch, RunId run,
                              uint32_t name) const {
  std::string key = RunPrefix(kPlacementTag, static_cast<uint64_t>(run));
  key += BigEndianKey(name).substr(8 - kNameBytes);
  db_.Put(batch, Table::kRun, key, "");
}

void PlacementTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                     RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  db_.DeleteRange(batch, Table::kRun, RunPrefix(kPlacementTag, id),
                  RunPrefix(kPlacementTag, id + 1));
}

}  // namespace msitd::storage
