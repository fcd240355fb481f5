// SPDX-License-Identifier: Apache-2.0
#include "storage/index/scan/tensor_assembler.h"

#include <rocksdb/iterator.h>

#include <array>
#include <cstring>
#include <utility>

#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {

void TensorAssembler::AppendPart(const IndexKey& key, const IndexValue& value,
                                 TensorInfo& out) {
  const SegmentId segment{value.segment_id};
  const RunId run{key.run};
  const bool is_expired = expiry_.IsExpired(segment, run, value.offset);
  out.has_bytes &= value.has_bytes && !is_expired;
  out.is_claimed |= value.is_claimed;
  out.has_sample &= (value.has_bytes || value.has_sample) && !is_expired;
  out.parts.push_back({{value.segment_id, value.offset},
                       PartBytes(value.tensor_bytes, key.part),
                       value.hash,
                       value.has_bytes,
                       value.has_sample,
                       value.sample_hash});
}

absl::Status TensorAssembler::FillExtras(TensorInfo& out) {
  out.requires_grad = first_.requires_grad;
  out.value = first_.value;
  out.stack.clear();
  out.alias_of.reset();
  if (first_.stack != 0) {
    MSITD_ASSIGN_OR_RETURN(const std::string* const stack,
                           texts_.Get(first_.stack));
    out.stack = *stack;
  }
  if (first_.alias_op == 0) return absl::OkStatus();
  AliasOf& original = out.alias_of.emplace();
  MSITD_ASSIGN_OR_RETURN(const std::string* const op,
                         texts_.Get(first_.alias_op));
  original.op = *op;
  MSITD_ASSIGN_OR_RETURN(const std::string* const index,
                         texts_.Get(first_.alias_index));
  original.index = *index;
  original.call = static_cast<int32_t>(first_.alias_call);
  original.io = first_.alias_io;
  return absl::OkStatus();
}

absl::StatusOr<bool> TensorAssembler::Assemble(rocksdb::Iterator& it,
                                               const IndexKey& key,
                                               TensorInfo& out) {
  if (!DecodeIndexValue(it.value().ToStringView(), first_)) {
    return IndexCorrupt("tensor");
  }
  out.kind = first_.kind;
  if (key.part != 0) {
    it.Next();
    return false;
  }
  out.dtype = first_.dtype;
  out.shape.assign(first_.dims.begin(), first_.dims.end());
  out.tensor_bytes = first_.tensor_bytes;
  out.sequence = first_.sequence;
  out.summary = first_.summary;
  out.hash = first_.hash;
  // Statistics never have bytes.
  out.has_bytes = first_.kind != RecordKind::kStatistics;
  out.has_sample = out.has_bytes;
  out.is_claimed = false;
  out.placement.clear();
  if (first_.placement != 0) {
    MSITD_ASSIGN_OR_RETURN(const std::string* const placement,
                           texts_.Get(first_.placement));
    out.placement = *placement;
  }
  MSITD_RETURN_IF_ERROR(FillExtras(out));
  out.parts.clear();
  AppendPart(key, first_, out);
  bool is_whole = true;
  if (first_.tensor_bytes > kPartBytes) {
    MSITD_ASSIGN_OR_RETURN(is_whole, AssembleParts(it, out));
  } else {
    it.Next();
  }
  out.has_sample &= !out.has_bytes;
  return is_whole;
}

absl::StatusOr<bool> TensorAssembler::AssembleParts(rocksdb::Iterator& it,
                                                    TensorInfo& out) {
  std::array<char, kTensorPrefixBytes> prefix;
  std::memcpy(prefix.data(), it.key().data(), prefix.size());
  const rocksdb::Slice prefix_slice(prefix.data(), prefix.size());
  hashes_.assign(1, first_.hash);
  const uint64_t part_count = chunk::PartCount(first_.tensor_bytes);
  it.Next();
  for (uint64_t part = 1; part < part_count; ++part, it.Next()) {
    if (!it.Valid() || !it.key().starts_with(prefix_slice)) return false;
    const std::optional<IndexKey> key = DecodeIndexKey(it.key().ToStringView());
    if (!key.has_value() ||
        !DecodeIndexValue(it.value().ToStringView(), value_)) {
      return IndexCorrupt("tensor");
    }
    if (key->part != part || !value_.SameTensor(first_)) return false;
    out.summary = Merge(out.summary, value_.summary);
    AppendPart(*key, value_, out);
    hashes_.push_back(value_.hash);
  }
  out.hash = chunk::CombinePartHashes(hashes_);
  return true;
}

absl::StatusOr<const std::string*> ScanNames::Get(uint32_t id) {
  const auto it = names_.find(id);
  if (it != names_.end()) return &it->second;
  MSITD_ASSIGN_OR_RETURN(std::string name, table_.NameOf(id));
  if (names_.size() >= kNamesMax || bytes_ >= kBytesMax) {
    names_.clear();
    bytes_ = 0;
  }
  bytes_ += name.size();
  return &(names_[id] = std::move(name));
}

}  // namespace msitd::storage
