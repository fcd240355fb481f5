// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_format.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "protos/base/attachment_limits.h"
#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"
#include "protos/base/run_limits.h"
#include "protos/base/utf8.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kManifestMagic = "msitd archive\n";
// Archives of complete runs have the first version, so that older daemons can
// read them. The second version adds unreadable items.
constexpr uint64_t kFirstVersion = 1;
constexpr uint64_t kFormatVersion = 2;
constexpr size_t kHashBytes = 16;
constexpr size_t kObjectsMax = size_t{1} << 20;
// Number of bits for the location of a part in the store: the number of its
// segment, and its offset in units of kRecordAlignment. Small enough for a run
// that is merged from several places.
constexpr int kFileBits = 22;
constexpr int kUnitBits = 30;
// Offsets for bytes that are not in a pack.
constexpr uint64_t kNoBytes = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kUnreadableBytes = kNoBytes - 1;

ContentHash HashText128(std::string_view bytes) {
  return chunk::HashBytes(std::as_bytes(std::span(bytes)));
}

void PutHash(ByteWriter& out, const ContentHash& hash) {
  out.PutFixed64(hash.low);
  out.PutFixed64(hash.high);
}

ContentHash GetHash(ByteReader& in) {
  ContentHash hash;
  hash.low = in.GetFixed64();
  hash.high = in.GetFixed64();
  return hash;
}

absl::Status Damaged(std::string_view what) {
  return MakeStatus(absl::StatusCode::kDataLoss, "{}", what);
}

bool GetObjects(ByteReader& in, std::vector<ArchiveObject>& objects) {
  const uint64_t count = in.GetVarint();
  if (!in.ok() || count > kObjectsMax || count > in.left()) return false;
  objects.resize(count);
  return std::all_of(objects.begin(), objects.end(),
                     [&](ArchiveObject& o) { return GetArchiveObject(in, o); });
}

// Reads text that is displayed to users.
bool GetShown(ByteReader& in, size_t bytes_max, std::string& out) {
  out = in.GetText();
  return in.ok() && out.size() <= bytes_max && IsValidUtf8(out) &&
         out.find('\0') == std::string::npos;
}

template <typename Counters, typename Visit>
void EachCounter(Counters& counters, Visit visit) {
  visit(counters.tensor_count);
  visit(counters.payload_bytes);
  visit(counters.duplicate_count);
  visit(counters.conflict_count);
  visit(counters.dropped_count);
  visit(counters.truncated_count);
  visit(counters.headless_count);
  visit(counters.expired_bytes);
  visit(counters.value_count);
  visit(counters.document_count);
  visit(counters.statistics_count);
  visit(counters.dangling_count);
}

template <typename Coverage, typename Visit>
void EachCount(Coverage& rank, Visit visit) {
  visit(rank.stream_count);
  visit(rank.total.seen_count);
  visit(rank.total.filtered_count);
  visit(rank.total.dropped_count);
  visit(rank.total.truncated_count);
  visit(rank.total.degraded_count);
  visit(rank.repeats.repeated_count);
  visit(rank.repeats.conflict_count);
  visit(rank.repeats.dangling_count);
  visit(rank.repeats.claimed_count);
  visit(rank.repeats.checked_count);
  visit(rank.repeats.false_count);
}

void PutRun(ByteWriter& out, const RunInfo& run) {
  out.PutText(run.spec.name);
  out.PutVarint(static_cast<uint64_t>(run.id));
  out.PutSigned(run.spec.world_size);
  out.PutVarint(run.spec.labels.size());
  for (const auto& [key, value] : run.spec.labels) {
    out.PutText(key);
    out.PutText(value);
  }
  out.PutText(run.spec.job);
  out.PutText(run.spec.owner);
  out.PutSigned(run.create_time_ns);
  out.PutSigned(run.seal_time_ns);
  out.PutText(run.capture_policy);
  out.PutSigned(run.counters.token_end);
  EachCounter(run.counters, [&](uint64_t count) { out.PutVarint(count); });
}

bool GetRun(ByteReader& in, RunInfo& run) {
  if (!GetShown(in, kRunNameBytesMax, run.spec.name)) return false;
  run.id = RunId{in.GetVarint()};
  const int64_t world_size = in.GetSigned();
  if (world_size < 0 || world_size > int64_t{kRankMax} + 1) return false;
  run.spec.world_size = static_cast<int32_t>(world_size);
  const uint64_t label_count = in.GetVarint();
  if (!in.ok() || label_count > kRunLabelsMax) return false;
  for (uint64_t i = 0; i < label_count; ++i) {
    std::string key;
    std::string value;
    if (!GetShown(in, kRunLabelBytesMax, key) ||
        !GetShown(in, kRunLabelBytesMax, value) || !IsRunLabel(key, value)) {
      return false;
    }
    run.spec.labels.emplace(std::move(key), std::move(value));
  }
  if (!GetShown(in, kJobBytesMax, run.spec.job) ||
      !GetShown(in, kOwnerBytesMax, run.spec.owner)) {
    return false;
  }
  run.sealed = true;
  run.create_time_ns = in.GetSigned();
  run.seal_time_ns = in.GetSigned();
  run.capture_policy = in.GetText();
  run.counters.token_end = in.GetSigned();
  bool are_counts = true;
  EachCounter(run.counters, [&](uint64_t& count) {
    count = in.GetVarint();
    are_counts &= count <= StreamCoverage::kCountMax;
  });
  return in.ok() && are_counts && !run.spec.name.empty() &&
         run.create_time_ns >= 0 && run.seal_time_ns >= 0 &&
         run.capture_policy.size() <= kCapturePolicyBytesMax &&
         run.counters.token_end >= 0 && run.counters.token_end <= kTokenMax + 1;
}

bool GetCoverage(ByteReader& in, std::vector<RankCoverage>& coverage) {
  const uint64_t count = in.GetVarint();
  if (!in.ok() || count > uint64_t{kRankMax} + 1 || count > in.left()) {
    return false;
  }
  for (uint64_t i = 0; i < count; ++i) {
    RankCoverage& rank = coverage.emplace_back();
    const uint64_t number = in.GetVarint();
    if (number > kRankMax) return false;
    rank.rank = static_cast<int32_t>(number);
    bool are_counts = true;
    EachCount(rank, [&](uint64_t& value) {
      value = in.GetVarint();
      are_counts &= value <= StreamCoverage::kCountMax;
    });
    if (!in.ok() || !are_counts || !IsSound(rank.total)) return false;
    if (i > 0 && coverage[i - 1].rank >= rank.rank) return false;
  }
  return true;
}

bool GetAttachments(ByteReader& in, std::vector<ArchivedAttachment>& out) {
  const uint64_t count = in.GetVarint();
  if (!in.ok() || count > kRunAttachmentsMax) return false;
  for (uint64_t i = 0; i < count; ++i) {
    ArchivedAttachment& attachment = out.emplace_back();
    AttachmentInfo& info = attachment.info;
    if (!GetShown(in, kAttachmentNameBytesMax, info.name) ||
        info.name.empty() ||
        !GetShown(in, kMediaTypeBytesMax, info.media_type)) {
      return false;
    }
    info.create_time_ns = in.GetSigned();
    if (!GetArchiveObject(in, attachment.object) ||
        attachment.object.bytes > kAttachmentBytesMax) {
      return false;
    }
    info.id = i + 1;
    info.size_bytes = attachment.object.bytes;
    info.hash = attachment.object.hash;
  }
  return true;
}

bool GetUnreadable(ByteReader& in, UnreadableItems& out) {
  out.tensor_count = in.GetVarint();
  out.attachment_count = in.GetVarint();
  const uint64_t count = in.GetVarint();
  if (!in.ok() || out.tensor_count > kArchiveEntriesMax ||
      out.attachment_count > kRunAttachmentsMax ||
      count > UnreadableItems::kTextsMax) {
    return false;
  }
  out.texts.resize(count);
  return std::all_of(
      out.texts.begin(), out.texts.end(), [&](std::string& text) {
        return GetShown(in, UnreadableItems::kTextBytesMax, text);
      });
}

// Encodes everything except the time and the hash.
std::string EncodeContent(const ArchiveManifest& manifest) {
  std::string bytes(kManifestMagic);
  ByteWriter out(bytes);
  out.PutVarint(manifest.unreadable.empty() ? kFirstVersion : kFormatVersion);
  PutRun(out, manifest.run);
  out.PutVarint(manifest.coverage.size());
  for (const RankCoverage& rank : manifest.coverage) {
    out.PutVarint(static_cast<uint64_t>(rank.rank));
    EachCount(rank, [&](uint64_t value) { out.PutVarint(value); });
  }
  out.PutVarint(manifest.attachments.size());
  for (const ArchivedAttachment& attachment : manifest.attachments) {
    out.PutText(attachment.info.name);
    out.PutText(attachment.info.media_type);
    out.PutSigned(attachment.info.create_time_ns);
    PutArchiveObject(out, attachment.object);
  }
  PutArchiveObject(out, manifest.directory);
  for (const auto* const objects : {&manifest.indexes, &manifest.packs}) {
    out.PutVarint(objects->size());
    for (const ArchiveObject& object : *objects) PutArchiveObject(out, object);
  }
  out.PutVarint(manifest.entry_count);
  out.PutVarint(manifest.part_count);
  if (manifest.unreadable.empty()) return bytes;
  out.PutVarint(manifest.unreadable.tensor_count);
  out.PutVarint(manifest.unreadable.attachment_count);
  out.PutVarint(manifest.unreadable.texts.size());
  for (const std::string& text : manifest.unreadable.texts) out.PutText(text);
  return bytes;
}

}  // namespace

void PutArchiveObject(ByteWriter& out, const ArchiveObject& object) {
  out.PutText(object.name);
  out.PutVarint(object.bytes);
  PutHash(out, object.hash);
}

bool GetArchiveObject(ByteReader& in, ArchiveObject& object) {
  object.name = in.GetText();
  object.bytes = in.GetVarint();
  object.hash = GetHash(in);
  return in.ok() && IsObjectKey(object.name) &&
         object.name.find('/') == std::string::npos &&
         object.bytes <= kObjectBytesMax;
}

void UnreadableItems::Add(uint64_t& count, std::string_view name,
                          std::string_view problem) {
  ++count;
  if (texts.size() == kTextsMax) return;
  std::string text = fmt::format("{}: {}", name, problem);
  if (text.size() > kTextBytesMax) text.resize(kTextBytesMax);
  // Names and errors may contain invalid UTF-8.
  while (!text.empty() && !IsValidUtf8(text)) text.pop_back();
  std::erase(text, '\0');
  texts.push_back(std::move(text));
}

uint64_t ArchiveManifest::ObjectBytes() const {
  uint64_t bytes = 0;
  for (const ArchiveObject& object : Objects()) bytes += object.bytes;
  return bytes;
}

uint64_t ArchiveManifest::PackBytes() const {
  uint64_t bytes = 0;
  for (const ArchiveObject& pack : packs) bytes += pack.bytes;
  return bytes;
}

std::vector<ArchiveObject> ArchiveManifest::Objects() const {
  std::vector<ArchiveObject> out = {directory};
  out.insert(out.end(), indexes.begin(), indexes.end());
  out.insert(out.end(), packs.begin(), packs.end());
  for (const ArchivedAttachment& one : attachments) out.push_back(one.object);
  return out;
}

std::string EncodeManifest(const ArchiveManifest& manifest) {
  std::string bytes = EncodeContent(manifest);
  ByteWriter out(bytes);
  out.PutSigned(manifest.archive_time_ns);
  PutHash(out, HashText128(bytes));
  return bytes;
}

ContentHash ContentOf(const ArchiveManifest& manifest) {
  return HashText128(EncodeContent(manifest));
}

absl::StatusOr<ArchiveManifest> DecodeManifest(std::string_view bytes) {
  if (!bytes.starts_with(kManifestMagic)) {
    return Damaged("the manifest is none of msitd");
  }
  {
    ByteReader in(bytes.substr(kManifestMagic.size()));
    const uint64_t version = in.GetVarint();
    if (in.ok() && version > kFormatVersion) {
      return MakeStatus(
          absl::StatusCode::kFailedPrecondition,
          "the archive has format {}, made by a later msitd; this "
          "one reads {}",
          version, kFormatVersion);
    }
  }
  if (bytes.size() < kManifestMagic.size() + kHashBytes) {
    return Damaged("the manifest is cut short");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kHashBytes);
  ByteReader tail(bytes.substr(body.size()));
  if (HashText128(body) != GetHash(tail)) {
    return Damaged("the manifest does not match its hash");
  }
  ByteReader in(body.substr(kManifestMagic.size()));
  ArchiveManifest out;
  const uint64_t version = in.GetVarint();
  if (version < kFirstVersion || !GetRun(in, out.run) ||
      !GetCoverage(in, out.coverage) || !GetAttachments(in, out.attachments) ||
      !GetArchiveObject(in, out.directory) || !GetObjects(in, out.indexes) ||
      !GetObjects(in, out.packs)) {
    return Damaged("the manifest holds what no archive has");
  }
  out.entry_count = in.GetVarint();
  out.part_count = in.GetVarint();
  if (version >= kFormatVersion && !GetUnreadable(in, out.unreadable)) {
    return Damaged("the manifest holds what no archive has");
  }
  out.archive_time_ns = in.GetSigned();
  if (!in.done()) return Damaged("the manifest holds what no archive has");
  return out;
}

absl::StatusOr<PartPlace> ArchivedPlace(const PartPlace& received,
                                        const ArchivedBytes& bytes) {
  const uint64_t unit = received.offset / kRecordAlignment;
  if (received.file >> kFileBits != 0 || unit >> kUnitBits != 0) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "a part lies at {}/{}, which an archive cannot repeat",
                      received.file, received.offset);
  }
  PartPlace place;
  place.file = received.file << kUnitBits | unit;
  switch (bytes.state) {
    case PackedBytes::kNone:
      place.offset = kNoBytes;
      break;
    case PackedBytes::kUnreadable:
      place.offset = kUnreadableBytes;
      break;
    case PackedBytes::kPacked:
      place.offset = uint64_t{bytes.place.pack} << 32 | bytes.place.offset;
      break;
  }
  return place;
}

ArchivedBytes FindArchivedBytes(const PartPlace& place) {
  if (place.offset == kNoBytes) return {PackedBytes::kNone};
  if (place.offset == kUnreadableBytes) return {PackedBytes::kUnreadable};
  return {
      PackedBytes::kPacked,
      {static_cast<uint32_t>(place.offset >> 32), place.offset & 0xffffffff}};
}

PartPlace ReceivedPlace(const PartPlace& place) {
  const uint64_t unit = place.file & ((uint64_t{1} << kUnitBits) - 1);
  return {place.file >> kUnitBits, unit * kRecordAlignment};
}

}  // namespace msitd::storage
