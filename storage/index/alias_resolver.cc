// SPDX-License-Identifier: Apache-2.0
#include "storage/index/alias_resolver.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"
#include "storage/index/record_entry.h"

namespace msitd::storage {
namespace {

bool HasAlias(const chunk::Chunk& chunk) {
  if (chunk.header().version == chunk::kPlainVersion) return false;
  const auto records = chunk.records();
  return std::any_of(records.begin(), records.end(), [&](const auto& record) {
    return chunk.ExtraOf(record).is_alias();
  });
}

void Unresolve(chunk::RecordDescriptor& alias) {
  alias.summary = Summary{};
  alias.hash = ContentHash{};
  alias.sample_hash = 0;
  alias.bytes_segment_id = 0;
  alias.bytes_offset = 0;
  alias.flags &= ~chunk::kDigestFlag;
}

chunk::Kept KeptOf(const IndexValue& entry) {
  if (entry.has_bytes) return chunk::Kept::kAll;
  return entry.has_sample ? chunk::Kept::kSample : chunk::Kept::kNothing;
}

// A part that an alias names, found in the frames or in the index.
struct Original {
  RecordKind kind;
  uint8_t dtype;
  std::span<const int64_t> dims;
  chunk::Kept kept;
  const Summary& summary;
  bool is_claimed;
  ContentHash hash;
  uint64_t sample_hash;
  BytePlace place;
};

// Stamps `alias`, a record of `chunk`, if the original is compatible with it.
bool StampIfAlike(const Original& original, chunk::Chunk& chunk,
                  chunk::RecordDescriptor& alias) {
  const auto dims = chunk.Dims(alias);
  if (original.kind != RecordKind::kTensor || original.dtype != alias.dtype ||
      original.kept != chunk.kept() ||
      !std::equal(dims.begin(), dims.end(), original.dims.begin(),
                  original.dims.end())) {
    return false;
  }
  alias.summary = original.summary;
  if (original.is_claimed) {
    alias.flags |= chunk::kDigestFlag;
    chunk.header().version = chunk::VersionFor(alias.flags);
  }
  alias.hash = original.hash;
  alias.sample_hash = original.sample_hash;
  alias.bytes_segment_id = original.place.segment_id;
  alias.bytes_offset = original.place.offset;
  return true;
}

}  // namespace

// The records of the frames so far, by key and part. The first one of a key is
// kept, as in the index.
class AliasResolver::Records {
 public:
  struct FoundRecord {
    const LogFrame* frame = nullptr;
    const chunk::RecordDescriptor* record = nullptr;
    BytePlace place;
  };

  void Add(const LogFrame& frame, const chunk::RecordDescriptor& record,
           const BytePlace& place) {
    const chunk::Chunk& chunk = *frame.chunk;
    records_.try_emplace(
        Key{static_cast<uint64_t>(frame.run), chunk.header().rank, record.token,
            record.part_offset, record.call, record.io, chunk.Text(record.op),
            chunk.Text(record.index), chunk.Text(record.device)},
        FoundRecord{&frame, &record, place});
  }

  const FoundRecord* Find(const LogFrame& frame,
                          const chunk::RecordDescriptor& alias,
                          const chunk::RecordExtra& extra) const {
    const chunk::Chunk& chunk = *frame.chunk;
    const auto it = records_.find(
        Key{static_cast<uint64_t>(frame.run), chunk.header().rank, alias.token,
            alias.part_offset, extra.alias_call, extra.alias_io,
            chunk.Text(extra.alias_op), chunk.Text(extra.alias_index),
            chunk.Text(alias.device)});
    return it == records_.end() ? nullptr : &it->second;
  }

 private:
  using Key = std::tuple<uint64_t, int32_t, int64_t, uint64_t, int32_t, uint8_t,
                         std::string_view, std::string_view, std::string_view>;

  std::map<Key, FoundRecord> records_;
};

absl::Status AliasResolver::Resolve() {
  if (std::none_of(frames_.begin(), frames_.end(),
                   [](const auto& frame) { return HasAlias(*frame.chunk); })) {
    return absl::OkStatus();
  }
  Records records;
  for (const LogFrame& frame : frames_) {
    chunk::Chunk& chunk = *frame.chunk;
    const chunk::ChunkHeader& header = chunk.header();
    chunk::FramePayload payload(header);
    for (chunk::RecordDescriptor& record : chunk.records()) {
      BytePlace place{header.segment_id, header.frame_offset +
                                             chunk.head().size() +
                                             payload.Next(record).offset};
      if (const auto extra = chunk.ExtraOf(record); extra.is_alias()) {
        MSITD_RETURN_IF_ERROR(ResolveOne(records, frame, extra, record));
        // The index may already have the key that the dangling alias will not
        // get.
        if (record.bytes_segment_id == 0) continue;
        place = {record.bytes_segment_id, record.bytes_offset};
      }
      records.Add(frame, record, place);
    }
  }
  return absl::OkStatus();
}

absl::Status AliasResolver::ResolveOne(const Records& records,
                                       const LogFrame& frame,
                                       const chunk::RecordExtra& extra,
                                       chunk::RecordDescriptor& alias) {
  Unresolve(alias);
  const Records::FoundRecord* found = records.Find(frame, alias, extra);
  if (found == nullptr) {
    return FindStored(frame.run, *frame.chunk, extra, alias);
  }
  const chunk::Chunk& other = *found->frame->chunk;
  const chunk::RecordDescriptor& original = *found->record;
  const bool agrees = StampIfAlike({.kind = chunk::KindOf(original),
                                    .dtype = original.dtype,
                                    .dims = other.Dims(original),
                                    .kept = other.kept(),
                                    .summary = original.summary,
                                    .is_claimed = chunk::IsClaimed(original),
                                    .hash = original.hash,
                                    .sample_hash = original.sample_hash,
                                    .place = found->place},
                                   *frame.chunk, alias);
  if (agrees && other.kept() == chunk::Kept::kSample) {
    lent_.push_back({frame.chunk, &alias, &original});
  }
  return absl::OkStatus();
}

absl::Status AliasResolver::FindStored(RunId run, chunk::Chunk& chunk,
                                       const chunk::RecordExtra& extra,
                                       chunk::RecordDescriptor& alias) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<IndexValue> entry,
                         FindOriginalOf(index_, run, chunk, alias, extra));
  if (!entry.has_value()) return absl::OkStatus();
  StampIfAlike({.kind = entry->kind,
                .dtype = static_cast<uint8_t>(entry->dtype),
                .dims = entry->dims,
                .kept = KeptOf(*entry),
                .summary = entry->summary,
                .is_claimed = entry->is_claimed,
                .hash = entry->hash,
                .sample_hash = entry->sample_hash,
                .place = {entry->segment_id, entry->offset}},
               chunk, alias);
  return absl::OkStatus();
}

void AliasResolver::StampSamples(chunk::Chunk& chunk) const {
  for (const Lent& lent : lent_) {
    if (lent.chunk == &chunk) {
      lent.alias->sample_hash = lent.original->sample_hash;
    }
  }
}

}  // namespace msitd::storage
