// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/attachment_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "protos/base/attachment_limits.h"
#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {
namespace {

// Other kinds of keys in Table::kRun begin with other letters.
constexpr char kInfoTag = 'a';
constexpr char kPieceTag = 'b';
constexpr char kMarkTag = 'x';
constexpr size_t kInfoPrefixBytes = 9;
constexpr size_t kMarkKeyBytes = 9;
constexpr std::string_view kNextIdKey = "next_attachment_id";
constexpr uint8_t kVersion = 1;

std::string InfoPrefix(RunId run) {
  return RunPrefix(kInfoTag, static_cast<uint64_t>(run));
}

std::string InfoKey(RunId run, std::string_view name) {
  return InfoPrefix(run).append(name);
}

std::string MarkKey(uint64_t id) { return kMarkTag + BigEndianKey(id); }

std::string PiecePrefix(uint64_t id) { return kPieceTag + BigEndianKey(id); }

std::string PieceKey(uint64_t id, uint64_t piece) {
  return PiecePrefix(id) + BigEndianKey(piece);
}

absl::Status NotFound(std::string_view name, std::string_view why) {
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound, "attachment {} {}", name, why),
      ErrorReason::kAttachmentNotFound);
}

}  // namespace

std::string EncodeAttachment(const AttachmentInfo& attachment) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kVersion);
  writer.PutVarint(attachment.id);
  writer.PutVarint(attachment.size_bytes);
  writer.PutSigned(attachment.create_time_ns);
  writer.PutFixed64(attachment.hash.low);
  writer.PutFixed64(attachment.hash.high);
  writer.PutText(attachment.media_type);
  return out;
}

bool DecodeAttachment(std::string_view bytes, AttachmentInfo& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kVersion) return false;
  out.id = reader.GetVarint();
  out.size_bytes = reader.GetVarint();
  out.create_time_ns = reader.GetSigned();
  out.hash.low = reader.GetFixed64();
  out.hash.high = reader.GetFixed64();
  out.media_type = std::string(reader.GetText());
  return reader.done();
}

absl::Status AttachmentTable::Load() {
  uint64_t size_bytes = 0;
  const std::string prefix(1, kInfoTag);
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    AttachmentInfo info;
    if (!DecodeAttachment(it->value().ToStringView(), info)) {
      return IndexCorrupt("run");
    }
    size_bytes += info.size_bytes;
  }
  const MutexLock lock(mu_);
  size_bytes_ = size_bytes;
  return ToStatus(it->status(), "read attachments");
}

absl::StatusOr<std::optional<AttachmentInfo>> AttachmentTable::Find(
    RunId run, std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kRun, InfoKey(run, name)));
  std::optional<AttachmentInfo> out;
  if (!value.has_value()) return out;
  if (!DecodeAttachment(*value, out.emplace())) return IndexCorrupt("run");
  out->name = name;
  return out;
}

absl::StatusOr<AttachmentInfo> AttachmentTable::Get(RunId run,
                                                    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(std::optional<AttachmentInfo> info, Find(run, name));
  if (!info.has_value()) return NotFound(name, "is not there");
  return *std::move(info);
}

absl::StatusOr<std::vector<AttachmentInfo>> AttachmentTable::List(
    RunId run, std::string_view after, size_t limit) {
  std::vector<AttachmentInfo> out;
  const std::string prefix = InfoPrefix(run);
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  // Names have no NUL, so no key is between the two.
  it->Seek(InfoKey(run, after) + (after.empty() ? "" : std::string(1, '\0')));
  for (; out.size() < limit && it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    AttachmentInfo& info = out.emplace_back();
    if (!DecodeAttachment(it->value().ToStringView(), info)) {
      return IndexCorrupt("run");
    }
    info.name = it->key().ToStringView().substr(kInfoPrefixBytes);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read attachments"));
  return out;
}

absl::StatusOr<std::optional<AttachmentInfo>> AttachmentTable::FindReplaced(
    RunId run, std::string_view name, bool replaces) {
  MSITD_ASSIGN_OR_RETURN(std::optional<AttachmentInfo> found, Find(run, name));
  if (found.has_value()) {
    if (replaces) return found;
    return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                                 "there is an attachment {}", name),
                      ErrorReason::kAttachmentExists);
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<AttachmentInfo> all,
                         List(run, "", kRunAttachmentsMax));
  if (all.size() < kRunAttachmentsMax) return found;
  return WithReason(
      MakeStatus(absl::StatusCode::kResourceExhausted,
                 "the run has {} attachments, no more are taken", all.size()),
      ErrorReason::kAttachmentsExhausted);
}

absl::Status AttachmentTable::CheckRoomFor(RunId run, std::string_view name,
                                           bool replaces) {
  return FindReplaced(run, name, replaces).status();
}

absl::StatusOr<uint64_t> AttachmentTable::Begin() {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> next,
                         db_.Get(Table::kMeta, kNextIdKey));
  uint64_t id = 1;
  if (next.has_value()) {
    if (next->size() != 8) return IndexCorrupt("default");
    id = GetBigEndian(next->data(), 8);
  }
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kMeta, kNextIdKey, BigEndianKey(id + 1));
  db_.Put(batch, Table::kRun, MarkKey(id), "");
  // Later writes use the same log, so if they survive a crash, this one does as
  // well.
  MSITD_RETURN_IF_ERROR(db_.WriteLogged(batch));
  return id;
}

absl::Status AttachmentTable::PutPiece(uint64_t id, uint64_t piece,
                                       std::string_view bytes) {
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kRun, PieceKey(id, piece), bytes);
  return db_.WriteLogged(batch);
}

absl::Status AttachmentTable::Commit(RunId run,
                                     const AttachmentInfo& attachment,
                                     bool replaces) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<AttachmentInfo> replaced,
                         FindReplaced(run, attachment.name, replaces));
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kRun, InfoKey(run, attachment.name),
          EncodeAttachment(attachment));
  db_.Delete(batch, Table::kRun, MarkKey(attachment.id));
  if (replaced.has_value()) {
    db_.Put(batch, Table::kRun, MarkKey(replaced->id), "");
  }
  MSITD_RETURN_IF_ERROR(db_.WriteDurable(batch));
  size_bytes_ += attachment.size_bytes;
  if (replaced.has_value()) size_bytes_ -= replaced->size_bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::string> AttachmentTable::Read(
    const AttachmentInfo& attachment, uint64_t offset, size_t limit) {
  std::string out;
  if (offset >= attachment.size_bytes) return out;
  const uint64_t end =
      offset + std::min<uint64_t>(limit, attachment.size_bytes - offset);
  out.reserve(end - offset);
  while (offset < end) {
    const uint64_t piece = offset / kPieceBytes;
    const uint64_t piece_begin = piece * kPieceBytes;
    MSITD_ASSIGN_OR_RETURN(
        const std::optional<std::string> bytes,
        db_.Get(Table::kRun, PieceKey(attachment.id, piece)));
    if (!bytes.has_value()) {
      return NotFound(attachment.name, "was deleted, or replaced, meanwhile");
    }
    if (bytes->size() !=
        std::min<uint64_t>(kPieceBytes, attachment.size_bytes - piece_begin)) {
      return IndexCorrupt("run");
    }
    const uint64_t last = std::min(end, piece_begin + bytes->size());
    out.append(*bytes, offset - piece_begin, last - offset);
    offset = last;
  }
  return out;
}

absl::Status AttachmentTable::Delete(RunId run, std::string_view name) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const AttachmentInfo info, Get(run, name));
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kRun, InfoKey(run, name));
  db_.Put(batch, Table::kRun, MarkKey(info.id), "");
  MSITD_RETURN_IF_ERROR(db_.WriteDurable(batch));
  size_bytes_ -= info.size_bytes;
  return absl::OkStatus();
}

absl::StatusOr<AttachmentTable::Removal> AttachmentTable::AppendRemovalTo(
    rocksdb::WriteBatch& batch, RunId run) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<AttachmentInfo> all,
                         List(run, "", std::numeric_limits<size_t>::max()));
  Removal out;
  for (const AttachmentInfo& info : all) {
    db_.Delete(batch, Table::kRun, InfoKey(run, info.name));
    db_.Put(batch, Table::kRun, MarkKey(info.id), "");
    out.bytes += info.size_bytes;
  }
  return out;
}

void AttachmentTable::AcceptRemoval(const Removal& removal) {
  const MutexLock lock(mu_);
  size_bytes_ -= removal.bytes;
}

absl::StatusOr<std::optional<uint64_t>> AttachmentTable::FirstMarked(
    const std::set<uint64_t>& written) {
  const std::string prefix(1, kMarkTag);
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    if (it->key().size() != kMarkKeyBytes) return IndexCorrupt("run");
    const uint64_t id = GetBigEndian(it->key().data() + 1, 8);
    if (!written.contains(id)) return std::optional<uint64_t>(id);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read attachments"));
  return std::optional<uint64_t>();
}

absl::Status AttachmentTable::RemoveMarked(uint64_t id) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> mark,
                         db_.Get(Table::kRun, MarkKey(id)));
  if (!mark.has_value()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  db_.DeleteRange(batch, Table::kRun, PiecePrefix(id), PiecePrefix(id + 1));
  db_.Delete(batch, Table::kRun, MarkKey(id));
  return db_.WriteLogged(batch);
}

absl::Status AttachmentTable::GiveRoomBack(uint64_t id) {
  return db_.GiveRoomBack(Table::kRun, PiecePrefix(id), PiecePrefix(id + 1));
}

uint64_t AttachmentTable::size_bytes() {
  const MutexLock lock(mu_);
  return size_bytes_;
}

}  // namespace msitd::storage
