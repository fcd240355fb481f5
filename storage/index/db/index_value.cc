// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/index_value.h"

#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/check.h"
#include "protos/base/summary_codec.h"

namespace msitd::storage {
namespace {

// Version 11 adds rows of comparisons as edits; version 10 runs marked as being
// restored; version 8 owners of runs; version 7 digests of producers; version 6
// records of kind statistics; version 5 extras. Since version 4, frames are
// stamped with whether they were written from shared memory. Version 1 does not
// have shared bytes either.
constexpr uint8_t kStoreVersion = 11;
constexpr uint8_t kFirstStoreVersion = 2;
// Has no extras.
constexpr uint8_t kFirstTensorVersion = 1;
constexpr uint8_t kTensorVersion = 2;
// Has no job.
constexpr uint8_t kFirstRunVersion = 1;
constexpr uint8_t kJobRunVersion = 2;
constexpr uint8_t kRunVersion = 3;
// Has no value_count and no dangling_count.
constexpr uint8_t kFirstCountersVersion = 1;
// Has no document_count and no statistics_count.
constexpr uint8_t kValueCountersVersion = 2;
constexpr uint8_t kCountersVersion = 3;
constexpr uint8_t kPositionVersion = 1;
constexpr uint8_t kStreamVersion = 1;
constexpr uint8_t kGoneVersion = 1;
constexpr uint8_t kClockVersion = 1;
// Has no degraded_count.
constexpr uint8_t kFirstCoverageVersion = 1;
// Has no times.
constexpr uint8_t kCountsCoverageVersion = 2;
constexpr uint8_t kCoverageVersion = 3;
// Has no dangling_count.
constexpr uint8_t kFirstRepeatsVersion = 1;
// Has no counts of digests.
constexpr uint8_t kDanglingRepeatsVersion = 2;
constexpr uint8_t kRepeatsVersion = 3;
constexpr uint8_t kExpiryVersion = 1;
constexpr uint8_t kPlaceVersion = 1;
constexpr uint8_t kRangesVersion = 1;

constexpr uint8_t kHasBytesFlag = 1;
constexpr uint8_t kHasSampleFlag = 2;
constexpr uint8_t kPlacedFlag = 4;
constexpr uint8_t kExtrasFlag = 8;
constexpr uint8_t kClaimedFlag = 16;
// Which extras an entry has.
constexpr uint8_t kValueBit = 1;
constexpr uint8_t kStackBit = 2;
constexpr uint8_t kAliasBit = 4;
constexpr int kRequiresGradShift = 3;
constexpr uint8_t kSealedFlag = 1;
constexpr uint8_t kPinnedFlag = 2;
constexpr uint8_t kRestoringFlag = 4;

// Maximum number that the byte with their count can hold.
constexpr size_t kEntryDimsMax = 255;
// An upper bound for an entry of a tensor.
constexpr size_t kEntryBytesMax =
    320 + kEntryDimsMax * kVarintBytesMax + kValueBytesMax;

bool HasExtras(const IndexValue& value) {
  return value.kind != RecordKind::kTensor || value.requires_grad.has_value() ||
         value.has_value || value.stack != 0 || value.alias_op != 0;
}

void PutExtras(FieldWriter& out, const IndexValue& value) {
  MSITD_CHECK(value.value.size() <= kValueBytesMax);
  uint8_t flags = static_cast<uint8_t>(value.kind);
  if (value.requires_grad.has_value()) {
    flags |= (*value.requires_grad ? 2 : 1) << kRequiresGradShift;
  }
  out.PutByte(flags);
  out.PutByte((value.has_value ? kValueBit : 0) |
              (value.stack != 0 ? kStackBit : 0) |
              (value.alias_op != 0 ? kAliasBit : 0));
  if (value.has_value) out.PutText(value.value);
  if (value.stack != 0) out.PutVarint(value.stack);
  if (value.alias_op == 0) return;
  out.PutVarint(value.alias_op);
  out.PutVarint(value.alias_call);
  out.PutByte(static_cast<uint8_t>(value.alias_io));
  out.PutVarint(value.alias_index);
}

// Reads the number of a name; false if it is 0, which is not a valid number.
bool GetNumber(ByteReader& in, uint32_t& out) {
  const uint64_t number = in.GetVarint();
  out = static_cast<uint32_t>(number);
  return out != 0 && out == number;
}

bool GetExtras(ByteReader& in, IndexValue& out) {
  const uint8_t flags = in.GetByte();
  const uint8_t which = in.GetByte();
  const int requires_grad = flags >> kRequiresGradShift;
  out.kind = static_cast<RecordKind>(flags & ((1 << kRequiresGradShift) - 1));
  if (requires_grad != 0) out.requires_grad = requires_grad == 2;
  if (!IsValid(out.kind) || requires_grad > 2 ||
      (which & ~(kValueBit | kStackBit | kAliasBit)) != 0) {
    return false;
  }
  out.has_value = (which & kValueBit) != 0;
  if (out.has_value) {
    const std::string_view value = in.GetText();
    if (value.size() > kValueBytesMax) return false;
    out.value = value;
  }
  if ((which & kStackBit) != 0 && !GetNumber(in, out.stack)) return false;
  if ((which & kAliasBit) == 0) return true;
  const bool has_op = GetNumber(in, out.alias_op);
  const uint64_t call = in.GetVarint();
  out.alias_call = static_cast<uint32_t>(call);
  out.alias_io = static_cast<Io>(in.GetByte());
  return has_op && call <= kCallMax && IsValid(out.alias_io) &&
         GetNumber(in, out.alias_index);
}

}  // namespace

bool HasExtras(std::string_view entry) {
  return !entry.empty() && static_cast<uint8_t>(entry[0]) == kTensorVersion;
}

void EncodeIndexValue(const IndexValue& value, std::string& out) {
  MSITD_CHECK(value.dims.size() <= kEntryDimsMax);
  char bytes[kEntryBytesMax];
  FieldWriter writer(bytes);
  const bool has_extras = HasExtras(value);
  writer.PutByte(has_extras ? kTensorVersion : kFirstTensorVersion);
  writer.PutByte(static_cast<uint8_t>(value.dtype));
  writer.PutByte((value.has_bytes ? kHasBytesFlag : 0) |
                 (value.has_sample ? kHasSampleFlag : 0) |
                 (value.placement != 0 ? kPlacedFlag : 0) |
                 (has_extras ? kExtrasFlag : 0) |
                 (value.is_claimed ? kClaimedFlag : 0));
  writer.PutByte(static_cast<uint8_t>(value.dims.size()));
  for (const int64_t dim : value.dims) {
    writer.PutVarint(static_cast<uint64_t>(dim));
  }
  writer.PutVarint(value.tensor_bytes);
  writer.PutVarint(value.sequence);
  writer.PutVarint(value.segment_id);
  writer.PutVarint(value.offset);
  writer.PutFixed64(value.hash.low);
  writer.PutFixed64(value.hash.high);
  if (value.has_sample) writer.PutFixed64(value.sample_hash);
  PutSummary(writer, value.summary);
  if (value.placement != 0) writer.PutVarint(value.placement);
  if (has_extras) PutExtras(writer, value);
  out.assign(static_cast<const char*>(bytes), writer.end());
}

bool DecodeIndexValue(std::string_view bytes, IndexValue& out) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version != kFirstTensorVersion && version != kTensorVersion) return false;
  out.dtype = static_cast<DType>(reader.GetByte());
  const uint8_t flags = reader.GetByte();
  out.has_bytes = (flags & kHasBytesFlag) != 0;
  out.has_sample = (flags & kHasSampleFlag) != 0;
  out.is_claimed = (flags & kClaimedFlag) != 0;
  out.dims.resize(reader.GetByte());
  for (int64_t& dim : out.dims) {
    dim = static_cast<int64_t>(reader.GetVarint());
  }
  out.tensor_bytes = reader.GetVarint();
  out.sequence = reader.GetVarint();
  out.segment_id = reader.GetVarint();
  out.offset = reader.GetVarint();
  out.hash.low = reader.GetFixed64();
  out.hash.high = reader.GetFixed64();
  out.sample_hash = out.has_sample ? reader.GetFixed64() : 0;
  GetSummary(reader, out.summary);
  const bool is_placed = (flags & kPlacedFlag) != 0;
  const uint64_t placement = is_placed ? reader.GetVarint() : 0;
  out.placement = static_cast<uint32_t>(placement);
  out.ClearExtras();
  const bool has_extras = (flags & kExtrasFlag) != 0;
  if (has_extras != (version == kTensorVersion)) return false;
  if (has_extras && !GetExtras(reader, out)) return false;
  return reader.done() && IsValid(out.dtype) &&
         out.tensor_bytes <= kTensorBytesMax &&
         !(out.has_bytes && out.has_sample) && out.placement == placement &&
         (out.placement != 0) == is_placed;
}

std::string EncodeStoreId(uint64_t store_id) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kStoreVersion);
  writer.PutFixed64(store_id);
  return out;
}

bool DecodeStoreId(std::string_view bytes, uint64_t& out, bool& is_newest) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kFirstStoreVersion || version > kStoreVersion) return false;
  is_newest = version == kStoreVersion;
  out = reader.GetFixed64();
  return reader.done() && out != 0;
}

int NewerStoreVersion(std::string_view bytes) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  return version > kStoreVersion ? version : 0;
}

int StoreVersion() { return kStoreVersion; }

std::string EncodeRun(const RunInfo& run) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kRunVersion);
  writer.PutByte((run.sealed ? kSealedFlag : 0) |
                 (run.retention.pinned ? kPinnedFlag : 0) |
                 (run.spec.restoring ? kRestoringFlag : 0));
  writer.PutVarint(static_cast<uint64_t>(run.id));
  writer.PutVarint(static_cast<uint64_t>(run.spec.world_size));
  writer.PutSigned(run.create_time_ns);
  writer.PutSigned(run.seal_time_ns);
  writer.PutVarint(run.retention.limits.bytes_max);
  writer.PutSigned(run.retention.limits.age_max_ns);
  writer.PutSigned(run.retention.limits.token_count);
  writer.PutText(run.capture_policy);
  writer.PutVarint(run.spec.labels.size());
  for (const auto& [name, value] : run.spec.labels) {
    writer.PutText(name);
    writer.PutText(value);
  }
  writer.PutText(run.spec.job);
  writer.PutText(run.spec.owner);
  return out;
}

bool DecodeRun(std::string_view bytes, RunInfo& out) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kFirstRunVersion || version > kRunVersion) return false;
  const uint8_t flags = reader.GetByte();
  out.sealed = (flags & kSealedFlag) != 0;
  out.retention.pinned = (flags & kPinnedFlag) != 0;
  out.spec.restoring = (flags & kRestoringFlag) != 0;
  out.id = RunId{reader.GetVarint()};
  out.spec.world_size = static_cast<int32_t>(reader.GetVarint());
  out.create_time_ns = reader.GetSigned();
  out.seal_time_ns = reader.GetSigned();
  out.retention.limits.bytes_max = reader.GetVarint();
  out.retention.limits.age_max_ns = reader.GetSigned();
  out.retention.limits.token_count = reader.GetSigned();
  out.capture_policy = reader.GetText();
  out.spec.labels.clear();
  for (uint64_t left = reader.GetVarint(); left > 0 && reader.ok(); --left) {
    const std::string name(reader.GetText());
    out.spec.labels[name] = std::string(reader.GetText());
  }
  out.spec.job = version >= kJobRunVersion ? reader.GetText() : "";
  out.spec.owner = version >= kRunVersion ? reader.GetText() : "";
  return reader.done();
}

std::string EncodeCounters(const RunCounters& counters) {
  std::string out;
  ByteWriter writer(out);
  uint8_t version = kFirstCountersVersion;
  if (counters.value_count != 0 || counters.dangling_count != 0) {
    version = kValueCountersVersion;
  }
  if (counters.document_count != 0 || counters.statistics_count != 0) {
    version = kCountersVersion;
  }
  writer.PutByte(version);
  writer.PutVarint(counters.tensor_count);
  writer.PutVarint(counters.payload_bytes);
  writer.PutVarint(counters.duplicate_count);
  writer.PutVarint(counters.conflict_count);
  writer.PutVarint(counters.headless_count);
  writer.PutVarint(static_cast<uint64_t>(counters.token_end));
  if (version >= kValueCountersVersion) {
    writer.PutVarint(counters.value_count);
    writer.PutVarint(counters.dangling_count);
  }
  if (version >= kCountersVersion) {
    writer.PutVarint(counters.document_count);
    writer.PutVarint(counters.statistics_count);
  }
  return out;
}

bool DecodeCounters(std::string_view bytes, RunCounters& out) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kFirstCountersVersion || version > kCountersVersion) {
    return false;
  }
  out.tensor_count = reader.GetVarint();
  out.payload_bytes = reader.GetVarint();
  out.duplicate_count = reader.GetVarint();
  out.conflict_count = reader.GetVarint();
  out.headless_count = reader.GetVarint();
  out.token_end = static_cast<int64_t>(reader.GetVarint());
  const bool has_values = version >= kValueCountersVersion;
  out.value_count = has_values ? reader.GetVarint() : 0;
  out.dangling_count = has_values ? reader.GetVarint() : 0;
  const bool has_statistics = version == kCountersVersion;
  out.document_count = has_statistics ? reader.GetVarint() : 0;
  out.statistics_count = has_statistics ? reader.GetVarint() : 0;
  return reader.done();
}

std::string EncodePosition(const LogPosition& position) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kPositionVersion);
  writer.PutVarint(position.segment_id);
  writer.PutVarint(position.offset);
  writer.PutVarint(position.next_frame_sequence);
  return out;
}

bool DecodePosition(std::string_view bytes, LogPosition& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kPositionVersion) return false;
  out.segment_id = reader.GetVarint();
  out.offset = reader.GetVarint();
  out.next_frame_sequence = reader.GetVarint();
  return reader.done();
}

std::string EncodeExpiryMark(const ExpiryMark& mark) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kExpiryVersion);
  writer.PutVarint(mark.end);
  writer.PutVarint(mark.freed_end);
  writer.PutVarint(mark.bytes);
  return out;
}

bool DecodeExpiryMark(std::string_view bytes, ExpiryMark& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kExpiryVersion) return false;
  out.end = reader.GetVarint();
  out.freed_end = reader.GetVarint();
  out.bytes = reader.GetVarint();
  return reader.done();
}

std::string EncodeBytePlace(const BytePlace& place) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kPlaceVersion);
  writer.PutVarint(place.segment_id);
  writer.PutVarint(place.offset);
  return out;
}

bool DecodeBytePlace(std::string_view bytes, BytePlace& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kPlaceVersion) return false;
  out.segment_id = reader.GetVarint();
  out.offset = reader.GetVarint();
  return reader.done();
}

std::string EncodeByteRanges(const std::vector<ByteRange>& ranges) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kRangesVersion);
  writer.PutVarint(ranges.size());
  for (const ByteRange& range : ranges) {
    writer.PutVarint(range.begin.segment_id);
    writer.PutVarint(range.begin.offset);
    writer.PutVarint(range.bytes);
  }
  return out;
}

bool DecodeByteRanges(std::string_view bytes, std::vector<ByteRange>& out) {
  out.clear();
  ByteReader reader(bytes);
  if (reader.GetByte() != kRangesVersion) return false;
  for (uint64_t left = reader.GetVarint(); left > 0 && reader.ok(); --left) {
    ByteRange& range = out.emplace_back();
    range.begin.segment_id = reader.GetVarint();
    range.begin.offset = reader.GetVarint();
    range.bytes = reader.GetVarint();
  }
  return reader.done();
}

std::string EncodeChunkCount(uint64_t count) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kStreamVersion);
  writer.PutVarint(count);
  return out;
}

bool DecodeChunkCount(std::string_view bytes, uint64_t& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kStreamVersion) return false;
  out = reader.GetVarint();
  return reader.done();
}

std::string EncodeClockMark(const ClockMark& mark) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kClockVersion);
  writer.PutText(mark.boot_id);
  writer.PutSigned(mark.wall_ns);
  writer.PutSigned(mark.boot_ns);
  writer.PutSigned(mark.steady_since_ns);
  writer.PutSigned(mark.set_ns);
  writer.PutSigned(mark.drift_ns);
  return out;
}

bool DecodeClockMark(std::string_view bytes, ClockMark& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kClockVersion) return false;
  out.boot_id = std::string(reader.GetText());
  out.wall_ns = reader.GetSigned();
  out.boot_ns = reader.GetSigned();
  out.steady_since_ns = reader.GetSigned();
  out.set_ns = reader.GetSigned();
  out.drift_ns = reader.GetSigned();
  return reader.done();
}

std::string EncodeGoneStage(uint8_t stage) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kGoneVersion);
  writer.PutByte(stage);
  return out;
}

bool DecodeGoneStage(std::string_view bytes, uint8_t& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kGoneVersion) return false;
  out = reader.GetByte();
  return reader.done();
}

std::string EncodeRepeats(const StreamRepeats& repeats) {
  std::string out;
  ByteWriter writer(out);
  const bool has_digests =
      repeats.claimed_count != 0 || repeats.checked_count != 0;
  const bool has_dangling = has_digests || repeats.dangling_count != 0;
  writer.PutByte(has_digests    ? kRepeatsVersion
                 : has_dangling ? kDanglingRepeatsVersion
                                : kFirstRepeatsVersion);
  writer.PutVarint(repeats.repeated_count);
  writer.PutVarint(repeats.conflict_count);
  if (has_dangling) writer.PutVarint(repeats.dangling_count);
  if (has_digests) {
    writer.PutVarint(repeats.claimed_count);
    writer.PutVarint(repeats.checked_count);
    writer.PutVarint(repeats.false_count);
  }
  return out;
}

bool DecodeRepeats(std::string_view bytes, StreamRepeats& out) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kFirstRepeatsVersion || version > kRepeatsVersion) {
    return false;
  }
  out.repeated_count = reader.GetVarint();
  out.conflict_count = reader.GetVarint();
  const auto get_from = [&](uint8_t first_version) {
    return version >= first_version ? reader.GetVarint() : 0;
  };
  out.dangling_count = get_from(kDanglingRepeatsVersion);
  out.claimed_count = get_from(kRepeatsVersion);
  out.checked_count = get_from(kRepeatsVersion);
  out.false_count = get_from(kRepeatsVersion);
  return reader.done();
}

std::string EncodeCoverage(const StreamCoverage& coverage) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kCoverageVersion);
  writer.PutVarint(coverage.seen_count);
  writer.PutVarint(coverage.filtered_count);
  writer.PutVarint(coverage.dropped_count);
  writer.PutVarint(coverage.truncated_count);
  writer.PutVarint(coverage.degraded_count);
  writer.PutVarint(coverage.recording_ns);
  writer.PutVarint(coverage.open_ns);
  return out;
}

bool DecodeCoverage(std::string_view bytes, StreamCoverage& out) {
  ByteReader reader(bytes);
  const uint8_t version = reader.GetByte();
  if (version < kFirstCoverageVersion || version > kCoverageVersion) {
    return false;
  }
  const auto get_from = [&reader, version](uint8_t first_version) {
    return version >= first_version ? reader.GetVarint() : 0;
  };
  out.seen_count = reader.GetVarint();
  out.filtered_count = reader.GetVarint();
  out.dropped_count = reader.GetVarint();
  out.truncated_count = reader.GetVarint();
  out.degraded_count = get_from(kCountsCoverageVersion);
  out.recording_ns = get_from(kCoverageVersion);
  out.open_ns = get_from(kCoverageVersion);
  return reader.done() && IsSound(out);
}

}  // namespace msitd::storage
