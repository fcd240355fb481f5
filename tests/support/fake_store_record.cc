// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "protos/chunk/chunk.h"
#include "tests/support/fake_store.h"

// Conversion of records by the fake store.
namespace msitd::testing {

using storage::TensorInfo;

void FakeStore::AddRecord(Run& run, chunk::Chunk& chunk,
                          const chunk::RecordDescriptor& record) {
  TensorKey key{run.info.spec.name,
                chunk.header().rank,
                std::string(chunk.Text(record.device)),
                record.token,
                std::string(chunk.Text(record.op)),
                record.call,
                static_cast<Io>(record.io),
                std::string(chunk.Text(record.index))};
  std::optional<Original> original;
  if (chunk.ExtraOf(record).is_alias()) {
    original = FindOriginal(run, chunk, record);
    if (!original.has_value()) {
      ++run.info.counters.dangling_count;
      run.repeats[chunk.header().rank].dangling_count +=
          record.part_offset == 0 ? 1 : 0;
      return;
    }
  }
  Tensor& tensor = run.tensors[KeyOf(key)];
  if (tensor.parts.empty()) {
    tensor.info = Describe(std::move(key), chunk, record);
    CountTensor(tensor.info, run);
  }
  ++stats_.committed_record_count;
  const auto payload = chunk.PayloadOf(record);
  const auto [part, added] = tensor.parts.try_emplace(record.part_offset);
  const ContentHash hash = original ? original->part.hash : record.hash;
  if (!added) {
    const bool equal = part->second.hash == hash;
    ++(equal ? stats_.duplicate_count : stats_.conflict_count);
    ++(equal ? run.info.counters.duplicate_count
             : run.info.counters.conflict_count);
    storage::StreamRepeats& repeats = run.repeats[chunk.header().rank];
    repeats.repeated_count += record.part_offset == 0 ? 1 : 0;
    repeats.conflict_count += equal ? 0 : 1;
    chunk.set_conflict_count(chunk.conflict_count() + (equal ? 0 : 1));
    return;
  }
  tensor.info.is_claimed |=
      original ? original->is_claimed : chunk::IsClaimed(record);
  if (chunk::HasDigest(record) && !original) {
    CountDigest(record, run.repeats[chunk.header().rank]);
  }
  if (original.has_value()) {
    part->second = original->part;
    tensor.summaries[record.part_offset] = original->summary;
    return;
  }
  part->second = {
      .place = {1, bytes_.size()},
      .bytes =
          chunk::IsClaimed(record) ? chunk::PartBytes(record) : payload.size(),
      .hash = record.hash,
  };
  part->second.has_bytes = chunk.kept() == chunk::Kept::kAll;
  part->second.has_sample = chunk.kept() == chunk::Kept::kSample;
  bytes_.emplace_back(reinterpret_cast<const char*>(payload.data()),
                      payload.size());
  tensor.summaries[record.part_offset] = record.summary;
  run.info.counters.payload_bytes += payload.size();
  stats_.committed_bytes += payload.size();
}

TensorInfo FakeStore::Describe(TensorKey key, const chunk::Chunk& chunk,
                               const chunk::RecordDescriptor& record) {
  TensorInfo out;
  out.key = std::move(key);
  out.dtype = static_cast<DType>(record.dtype);
  const auto dims = chunk.Dims(record);
  out.shape.assign(dims.begin(), dims.end());
  out.tensor_bytes = record.tensor_bytes;
  out.sequence = record.sequence;
  out.placement = chunk.Text(record.placement);
  SetExtras(chunk, record, out);
  return out;
}

void FakeStore::CountTensor(const TensorInfo& tensor, Run& run) {
  auto& counters = run.info.counters;
  const bool is_tensor = tensor.kind == RecordKind::kTensor;
  const bool is_statistics = tensor.kind == RecordKind::kStatistics;
  ++(is_tensor       ? counters.tensor_count
     : is_statistics ? counters.statistics_count
                     : counters.value_count);
  counters.document_count += tensor.kind == RecordKind::kDocument ? 1 : 0;
  counters.token_end = std::max(counters.token_end, tensor.key.token + 1);
}

void FakeStore::CountDigest(const chunk::RecordDescriptor& record,
                            storage::StreamRepeats& counts) {
  const bool is_checked = !chunk::IsClaimed(record);
  const bool is_false = (record.flags & chunk::kFalseDigestFlag) != 0;
  counts.claimed_count += record.part_offset == 0 ? 1 : 0;
  counts.checked_count += is_checked ? 1 : 0;
  counts.false_count += is_false ? 1 : 0;
  stats_.checked_digest_count += is_checked ? 1 : 0;
  stats_.false_digest_count += is_false ? 1 : 0;
}

std::optional<FakeStore::Original> FakeStore::FindOriginal(
    Run& run, const chunk::Chunk& chunk,
    const chunk::RecordDescriptor& record) {
  const chunk::RecordExtra extra = chunk.ExtraOf(record);
  const auto it = run.tensors.find(
      KeyOf({run.info.spec.name, chunk.header().rank,
             std::string(chunk.Text(record.device)), record.token,
             std::string(chunk.Text(extra.alias_op)), extra.alias_call,
             static_cast<Io>(extra.alias_io),
             std::string(chunk.Text(extra.alias_index))}));
  if (it == run.tensors.end()) return std::nullopt;
  const Tensor& found = it->second;
  const auto part = found.parts.find(record.part_offset);
  const auto dims = chunk.Dims(record);
  if (part == found.parts.end() || found.info.kind != RecordKind::kTensor ||
      found.info.dtype != static_cast<DType>(record.dtype) ||
      !std::equal(dims.begin(), dims.end(), found.info.shape.begin(),
                  found.info.shape.end()) ||
      part->second.has_bytes != (chunk.kept() == chunk::Kept::kAll) ||
      part->second.has_sample != (chunk.kept() == chunk::Kept::kSample)) {
    return std::nullopt;
  }
  return Original{part->second, found.summaries.at(record.part_offset),
                  found.info.is_claimed};
}

void FakeStore::SetExtras(const chunk::Chunk& chunk,
                          const chunk::RecordDescriptor& record,
                          TensorInfo& out) {
  const chunk::RecordExtra extra = chunk.ExtraOf(record);
  out.kind = chunk::KindOf(record);
  out.requires_grad = chunk::RequiresGradOf(record);
  out.value = chunk.Text(extra.value);
  out.stack = chunk.Text(extra.stack);
  if (!extra.is_alias()) return;
  out.alias_of =
      storage::AliasOf{std::string(chunk.Text(extra.alias_op)),
                       extra.alias_call, static_cast<Io>(extra.alias_io),
                       std::string(chunk.Text(extra.alias_index))};
}

}  // namespace msitd::testing
