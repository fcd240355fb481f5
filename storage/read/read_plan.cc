// SPDX-License-Identifier: Apache-2.0
#include "storage/read/read_plan.h"

#include <algorithm>
#include <utility>

#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {
namespace {

uint64_t PageBegin(const PartInfo& part) {
  return part.place.offset / kChunkAlignment * kChunkAlignment;
}

uint64_t PageEnd(const PartInfo& part) {
  return AlignUp(part.place.offset + part.bytes, kChunkAlignment);
}

// Other values in a damaged index are left to ReadPart, which refuses them.
bool IsReadable(const PartInfo& part) {
  return part.has_bytes && part.bytes > 0 && part.bytes <= kPartBytes &&
         part.place.offset <=
             std::numeric_limits<int64_t>::max() - 2 * kPartBytes;
}

bool Joins(const ReadPlan::Read& read, const PartInfo& part) {
  const uint64_t end = read.offset + read.bytes;
  return read.file == part.place.file &&
         PageBegin(part) <= end + kJoinedGapBytesMax &&
         PageEnd(part) <= read.offset + kJoinedReadBytesMax;
}

// Returns the numbers of the readable parts, ordered by location.
std::vector<size_t> InPlaceOrder(std::span<const PartInfo> parts) {
  std::vector<size_t> out;
  out.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (IsReadable(parts[i])) out.push_back(i);
  }
  const auto comes_before = [&](size_t a, size_t b) {
    return parts[a].place < parts[b].place;
  };
  if (!std::is_sorted(out.begin(), out.end(), comes_before)) {
    std::sort(out.begin(), out.end(), comes_before);
  }
  return out;
}

// Sorts the reads by the order in which parts need them.
void SortByNeed(ReadPlan& plan) {
  std::vector<size_t> new_index(plan.reads.size(),
                                ReadPlan::BufferPlace::kNoRead);
  std::vector<ReadPlan::Read> reads;
  reads.reserve(plan.reads.size());
  for (ReadPlan::BufferPlace& place : plan.places) {
    if (place.read == ReadPlan::BufferPlace::kNoRead) continue;
    size_t& index = new_index[place.read];
    if (index == ReadPlan::BufferPlace::kNoRead) {
      index = reads.size();
      reads.push_back(plan.reads[place.read]);
    }
    place.read = index;
  }
  plan.reads = std::move(reads);
}

ReadPlan PlanAll(std::span<const PartInfo> parts) {
  ReadPlan out;
  out.places.resize(parts.size());
  for (const size_t i : InPlaceOrder(parts)) {
    const PartInfo& part = parts[i];
    const uint64_t begin = PageBegin(part);
    const uint64_t end = PageEnd(part);
    if (out.reads.empty() || !Joins(out.reads.back(), part)) {
      out.reads.push_back({part.place.file, begin, 0, out.buffer_bytes});
    }
    ReadPlan::Read& read = out.reads.back();
    read.bytes = std::max(read.bytes, end - read.offset);
    out.buffer_bytes = read.buffer_offset + read.bytes;
    out.places[i] = {out.reads.size() - 1,
                     read.buffer_offset + (part.place.offset - read.offset)};
  }
  SortByNeed(out);
  return out;
}

}  // namespace

ReadPlan PlanReads(std::span<const PartInfo> parts) {
  size_t count = std::min(parts.size(), kBatchPartsMax);
  while (true) {
    ReadPlan plan = PlanAll(parts.first(count));
    if (count <= 1 || plan.buffer_bytes <= kBatchBytesMax) return plan;
    count /= 2;
  }
}

}  // namespace msitd::storage
