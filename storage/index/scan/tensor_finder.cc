// SPDX-License-Identifier: Apache-2.0
#include "storage/index/scan/tensor_finder.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>
#include <string>
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"
#include "storage/index/scan/compiled_selector.h"
#include "storage/index/scan/index_scan.h"
#include "storage/index/scan/tensor_assembler.h"

namespace msitd::storage {
namespace {

// Returns the first key at or after `place` in the same run; nothing if there
// is none.
absl::StatusOr<std::optional<IndexKey>> FirstFrom(rocksdb::Iterator& it,
                                                  const IndexKey& place) {
  it.Seek(View(EncodeIndexKey(place)));
  MSITD_RETURN_IF_ERROR(ToStatus(it.status(), "read index"));
  if (!it.Valid()) return std::nullopt;
  std::optional<IndexKey> key = DecodeIndexKey(it.key().ToStringView());
  if (!key.has_value()) return IndexCorrupt("tensor");
  if (key->run != place.run) key.reset();
  return key;
}

}  // namespace

absl::Status TensorNotFound(const TensorKey& key) {
  return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                               "there is no tensor {}, or not all of it",
                               FormatTensorName(key)),
                    ErrorReason::kTensorNotFound);
}

absl::StatusOr<TensorInfo> TensorFinder::Get(RunId run, const TensorKey& key) {
  if (key.rank < 0 || key.rank > kRankMax || key.token < 0 ||
      key.token > kTokenMax || key.call < 0) {
    return TensorNotFound(key);
  }
  MSITD_ASSIGN_OR_RETURN(const auto device, names_.Find(key.device));
  MSITD_ASSIGN_OR_RETURN(const auto op, names_.Find(key.op));
  MSITD_ASSIGN_OR_RETURN(const auto index, names_.Find(key.index));
  if (!device.has_value() || !op.has_value() || !index.has_value()) {
    return TensorNotFound(key);
  }
  IndexKey place;
  place.run = static_cast<uint32_t>(run);
  place.rank = static_cast<uint32_t>(key.rank);
  place.device = *device;
  place.token = static_cast<uint64_t>(key.token);
  place.op = *op;
  place.call = static_cast<uint32_t>(key.call);
  place.io = key.io;
  place.index = *index;
  const EncodedKey begin = EncodeIndexKey(place);

  const auto it = db_.Iterate(Table::kTensor, rocksdb::ReadOptions());
  it->Seek(View(begin));
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
  if (!it->Valid() || it->key() != rocksdb::Slice(View(begin))) {
    return TensorNotFound(key);
  }
  TensorInfo out;
  TensorAssembler assembler(expiry_, names_);
  MSITD_ASSIGN_OR_RETURN(const bool is_whole,
                         assembler.Assemble(*it, place, out));
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
  if (!is_whole) return TensorNotFound(key);
  out.key = key;
  return out;
}

absl::StatusOr<std::unique_ptr<TensorScan>> TensorFinder::Scan(
    const ScannedRun& run, const Selector& selector,
    std::string_view position) {
  return IndexScan::Begin(db_, names_, globs_, expiry_, run, selector,
                          position);
}

absl::Status TensorFinder::VisitCoordinates(
    RunId run, const Selector& selector,
    absl::FunctionRef<absl::Status(const Coordinate&)> visit,
    const Coordinate* after) {
  MSITD_ASSIGN_OR_RETURN(
      const CompiledSelector places,
      CompiledSelector::Compile(
          {selector.ranks, selector.devices, selector.tokens}, names_, globs_));
  if (places.is_void()) return absl::OkStatus();
  const auto it = db_.Iterate(Table::kTensor, rocksdb::ReadOptions());
  IndexKey place;
  place.run = static_cast<uint32_t>(run);
  if (after != nullptr) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint32_t> device,
                           names_.Find(after->device));
    if (!device.has_value()) return IndexCorrupt("device");
    place.rank = static_cast<uint32_t>(after->rank);
    place.device = *device;
    place.token = static_cast<uint64_t>(after->token) + 1;
  }
  Coordinate found;
  uint32_t device_id = 0;  // No name has this number.
  while (places.Advance(place)) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<IndexKey> key,
                           FirstFrom(*it, place));
    if (!key.has_value()) break;
    IndexKey next = *key;
    if (!places.Advance(next)) break;
    if (next == *key) {
      if (device_id != key->device) {
        MSITD_ASSIGN_OR_RETURN(found.device, names_.NameOf(key->device));
        device_id = key->device;
      }
      found.rank = static_cast<int32_t>(key->rank);
      found.token = static_cast<int64_t>(key->token);
      MSITD_RETURN_IF_ERROR(visit(found));
      next = {};
      next.run = key->run;
      next.rank = key->rank;
      next.device = key->device;
      next.token = key->token + 1;
    }
    place = next;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> TensorFinder::ListRanks(RunId run) {
  std::vector<int32_t> out;
  const auto it = db_.Iterate(Table::kTensor, rocksdb::ReadOptions());
  IndexKey place;
  place.run = static_cast<uint32_t>(run);
  while (place.rank <= static_cast<uint32_t>(kRankMax)) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<IndexKey> key,
                           FirstFrom(*it, place));
    if (!key.has_value()) break;
    out.push_back(static_cast<int32_t>(key->rank));
    place.rank = key->rank + 1;
  }
  return out;
}

}  // namespace msitd::storage
