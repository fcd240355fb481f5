// SPDX-License-Identifier: Apache-2.0
#include "storage/read/planned_reads.h"

#include "protos/chunk/chunk.h"

namespace msitd::storage {
namespace {

AlignedBuffer& AtLeast(uint64_t bytes, AlignedBuffer& buffer) {
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  return buffer;
}

}  // namespace

PlannedReads::PlannedReads(SegmentReader& reader, ReadPool& pool,
                           std::span<const PartInfo> parts,
                           AlignedBuffer& buffer)
    : reader_(reader),
      parts_(parts),
      plan_(PlanReads(parts)),
      buffer_(AtLeast(plan_.buffer_bytes, buffer)),
      read_bytes_(plan_.reads.size()),
      job_(pool, plan_.reads.size(), [this](size_t index) { Read(index); }) {}

void PlannedReads::Read(size_t index) {
  const ReadPlan::Read& read = plan_.reads[index];
  const absl::StatusOr<uint64_t> bytes =
      reader_.ReadPages(SegmentId{read.file}, read.offset,
                        buffer_.span().subspan(read.buffer_offset, read.bytes));
  // A failed read returns 0 bytes. Its parts are then read separately, which
  // reports the error.
  read_bytes_[index] = bytes.value_or(0);
}

std::optional<std::span<const std::byte>> PlannedReads::Find(size_t index) {
  const ReadPlan::BufferPlace& place = plan_.places[index];
  const PartInfo& part = parts_[index];
  if (place.read == ReadPlan::BufferPlace::kNoRead) return std::nullopt;
  job_.Await(place.read);
  const uint64_t begin =
      place.buffer_offset - plan_.reads[place.read].buffer_offset;
  if (read_bytes_[place.read] < begin + part.bytes) return std::nullopt;
  const std::span<const std::byte> bytes =
      buffer_.span().subspan(place.buffer_offset, part.bytes);
  if (chunk::HashBytes(bytes) != part.hash) return std::nullopt;
  return bytes;
}

}  // namespace msitd::storage
