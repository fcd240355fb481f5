// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "protos/base/check.h"
#include "protos/base/summary_codec.h"
#include "protos/chunk/chunk.h"
#include "storage/batch/entry_batch.h"
#include "storage/batch/entry_codec.h"

namespace msitd::storage {
namespace {

void PutHash(ByteWriter& out, const ContentHash& hash) {
  out.PutFixed64(hash.low);
  out.PutFixed64(hash.high);
}

uint8_t PartBits(const PartInfo& part) {
  return (part.has_bytes ? kPartHasBytes : 0) |
         (part.has_sample ? kPartHasSample : 0);
}

void PutNumbers(ByteWriter& out, const TensorInfo& tensor) {
  out.PutVarint(static_cast<uint64_t>(tensor.key.rank));
  out.PutVarint(static_cast<uint64_t>(tensor.key.token));
  out.PutVarint(static_cast<uint64_t>(tensor.key.call));
  out.PutByte(static_cast<uint8_t>(tensor.key.io));
  out.PutByte(static_cast<uint8_t>(tensor.kind));
  out.PutByte(static_cast<uint8_t>(tensor.dtype));
  out.PutVarint(tensor.tensor_bytes);
  out.PutVarint(tensor.sequence);
}

}  // namespace

EntryBatchWriter::EntryBatchWriter() = default;

uint64_t EntryBatchWriter::NumberOf(std::string_view text) {
  const auto at = numbers_.find(text);
  if (at != numbers_.end()) return at->second;
  ByteWriter(texts_).PutText(text);
  return numbers_.emplace(text, numbers_.size()).first->second;
}

uint64_t EntryBatchWriter::NumberOf(std::string_view text, LastText& last) {
  // An empty text would otherwise match the initial value of `last`, which is
  // not that of an entry.
  if (text.empty() || text != last.text) {
    last = {std::string(text), NumberOf(text)};
  }
  return last.number;
}

void EntryBatchWriter::Add(const TensorInfo& tensor) {
  MSITD_CHECK(!is_full());
  MSITD_CHECK(tensor.parts.size() == chunk::PartCount(tensor.tensor_bytes));
  ++entry_count_;
  PutNumbers(out_, tensor);
  out_.PutVarint(NumberOf(tensor.key.device, device_));
  out_.PutVarint(NumberOf(tensor.key.op, op_));
  out_.PutVarint(NumberOf(tensor.key.index, index_));
  PutShape(tensor.shape);
  const uint64_t bits = EntryBits(tensor);
  out_.PutVarint(bits);
  PutSummary(out_, tensor.summary);
  PutParts(tensor, (bits & kEntryMixedParts) != 0);
  PutExtras(tensor);
}

void EntryBatchWriter::PutShape(const std::vector<int64_t>& shape) {
  shape_bytes_.clear();
  ByteWriter bytes(shape_bytes_);
  for (const int64_t dim : shape) bytes.PutVarint(static_cast<uint64_t>(dim));
  out_.PutVarint(NumberOf(shape_bytes_, shape_));
}

void EntryBatchWriter::PutParts(const TensorInfo& tensor, bool is_mixed) {
  for (const PartInfo& part : tensor.parts) {
    out_.PutVarint(part.place.file);
    out_.PutVarint(part.place.offset);
    PutHash(out_, part.hash);
    if (is_mixed) out_.PutByte(PartBits(part));
    if (part.has_sample) out_.PutFixed64(part.sample_hash);
  }
}

void EntryBatchWriter::PutExtras(const TensorInfo& tensor) {
  if (!tensor.placement.empty()) out_.PutVarint(NumberOf(tensor.placement));
  if (HasValueText(tensor.kind)) out_.PutText(tensor.value);
  if (!tensor.stack.empty()) out_.PutVarint(NumberOf(tensor.stack));
  if (!tensor.alias_of.has_value()) return;
  out_.PutVarint(NumberOf(tensor.alias_of->op));
  out_.PutVarint(static_cast<uint64_t>(tensor.alias_of->call));
  out_.PutByte(static_cast<uint8_t>(tensor.alias_of->io));
  out_.PutVarint(NumberOf(tensor.alias_of->index));
}

std::string EntryBatchWriter::Finish() {
  std::string batch;
  batch.reserve(32 + texts_.size() + entries_.size());
  ByteWriter out(batch);
  out.PutByte(kEntryBatchVersion);
  out.PutVarint(numbers_.size());
  out.PutVarint(entry_count_);
  batch += texts_;
  batch += entries_;
  MSITD_CHECK(batch.size() <= kEntryBatchBytesMax);
  numbers_.clear();
  texts_.clear();
  entries_.clear();
  entry_count_ = 0;
  device_ = op_ = index_ = shape_ = {};
  return batch;
}

ContentHash EntryHasher::Hash(const TensorInfo& tensor) {
  bytes_.clear();
  ByteWriter out(bytes_);
  PutNumbers(out, tensor);
  out.PutText(tensor.key.device);
  out.PutText(tensor.key.op);
  out.PutText(tensor.key.index);
  out.PutVarint(tensor.shape.size());
  for (const int64_t dim : tensor.shape) {
    out.PutVarint(static_cast<uint64_t>(dim));
  }
  out.PutVarint(EntryBits(tensor));
  PutSummary(out, tensor.summary);
  for (const PartInfo& part : tensor.parts) {
    PutHash(out, part.hash);
    out.PutByte(PartBits(part));
    if (part.has_sample) out.PutFixed64(part.sample_hash);
  }
  out.PutText(tensor.placement);
  out.PutText(tensor.value);
  out.PutText(tensor.stack);
  if (tensor.alias_of.has_value()) {
    out.PutText(tensor.alias_of->op);
    out.PutVarint(static_cast<uint64_t>(tensor.alias_of->call));
    out.PutByte(static_cast<uint8_t>(tensor.alias_of->io));
    out.PutText(tensor.alias_of->index);
  }
  return chunk::HashBytes(std::as_bytes(std::span(bytes_)));
}

}  // namespace msitd::storage
