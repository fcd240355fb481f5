// SPDX-License-Identifier: Apache-2.0
#include "storage/index/index_audit.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <utility>

#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

std::string NameOrNumber(ChunkIndex& index, uint32_t id) {
  absl::StatusOr<std::string> name = index.names().NameOf(id);
  return name.ok() ? *std::move(name) : fmt::format("#{}", id);
}

}  // namespace

absl::Status ForEachEntry(
    ChunkIndex& index,
    const std::function<absl::Status(const AuditedEntry&)>& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const auto it = index.db().Iterate(Table::kTensor, options);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    AuditedEntry entry;
    const auto key = DecodeIndexKey(it->key().ToStringView());
    if (key.has_value()) {
      entry.key = *key;
      entry.value.emplace();
      if (!DecodeIndexValue(it->value().ToStringView(), *entry.value)) {
        entry.value.reset();
      }
    }
    MSITD_RETURN_IF_ERROR(visit(entry));
  }
  return ToStatus(it->status(), "read index");
}

std::string DescribeKey(ChunkIndex& index, const IndexKey& key) {
  TensorKey out;
  const absl::StatusOr<RunInfo> run = index.runs().GetById(RunId{key.run});
  out.run = run.ok() ? run->spec.name : fmt::format("#{}", key.run);
  out.rank = static_cast<int32_t>(key.rank);
  out.device = NameOrNumber(index, key.device);
  out.token = static_cast<int64_t>(key.token);
  out.op = NameOrNumber(index, key.op);
  out.call = static_cast<int32_t>(key.call);
  out.io = key.io;
  out.index = NameOrNumber(index, key.index);
  const std::string name = FormatTensorName(out);
  return key.part == 0 ? name : fmt::format("{} part {}", name, key.part);
}

}  // namespace msitd::storage
