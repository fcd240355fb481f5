// SPDX-License-Identifier: Apache-2.0
#include "storage/indexed_attachments.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "protos/base/attachment_limits.h"
#include "protos/chunk/piecewise_hash.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status Exhausted(std::string_view what, uint64_t bytes_max) {
  return WithReason(
      MakeStatus(absl::StatusCode::kResourceExhausted,
                 "{} would have more than {} bytes", what, bytes_max),
      ErrorReason::kAttachmentsExhausted);
}

}  // namespace

// Buffers data until a piece is complete.
class IndexedAttachments::Writer final : public AttachmentWriter {
 public:
  Writer(IndexedAttachments& store, RunId run, uint64_t id, AttachmentSpec spec)
      : store_(store), run_(run), id_(id), spec_(std::move(spec)) {}
  ~Writer() override { store_.Forget(id_); }

  absl::Status Append(std::string_view bytes) override {
    if (status_.ok()) status_ = Take(bytes);
    return status_;
  }

  ContentHash hash() const override { return hash_.Get(); }

  absl::StatusOr<AttachmentInfo> Commit() override {
    if (status_.ok() && !piece_.empty()) status_ = PutPiece();
    MSITD_RETURN_IF_ERROR(status_);
    AttachmentInfo info;
    info.id = id_;
    info.name = spec_.name;
    info.media_type = spec_.media_type;
    info.size_bytes = size_bytes_;
    info.hash = hash_.Get();
    info.create_time_ns = store_.env_.NowNs();
    MSITD_RETURN_IF_ERROR(store_.room_.EnsureForRecord());
    const absl::Status committed = store_.Commit(run_, info, spec_.replaces);
    if (absl::IsNotFound(committed)) return RunGone();
    MSITD_RETURN_IF_ERROR(committed);
    return info;
  }

 private:
  static constexpr size_t kPieceBytes = AttachmentTable::kPieceBytes;

  absl::Status Take(std::string_view bytes) {
    if (bytes.size() > kAttachmentBytesMax - size_bytes_) {
      return Exhausted("the attachment", kAttachmentBytesMax);
    }
    MSITD_RETURN_IF_ERROR(store_.Reserve(id_, bytes.size()));
    size_bytes_ += bytes.size();
    hash_.Add(bytes);
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kPieceBytes - piece_.size());
      piece_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (piece_.size() == kPieceBytes) MSITD_RETURN_IF_ERROR(PutPiece());
    }
    return absl::OkStatus();
  }

  absl::Status RunGone() const {
    return WithMetadata(
        WithReason(MakeStatus(absl::StatusCode::kNotFound,
                              "run {} was deleted meanwhile", spec_.run),
                   ErrorReason::kRunNotFound),
        "run", spec_.run);
  }

  absl::Status PutPiece() {
    MSITD_RETURN_IF_ERROR(store_.room_.EnsureForRecord());
    MSITD_RETURN_IF_ERROR(
        store_.index_->attachments().PutPiece(id_, piece_count_++, piece_));
    piece_.clear();
    return absl::OkStatus();
  }

  IndexedAttachments& store_;
  const RunId run_;
  const uint64_t id_;
  const AttachmentSpec spec_;
  absl::Status status_;  // The first error.
  uint64_t size_bytes_ = 0;
  chunk::PiecewiseHash hash_;
  std::string piece_;
  uint64_t piece_count_ = 0;
};

absl::StatusOr<AttachmentInfo> IndexedAttachments::GetAttachment(
    std::string_view run, std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief brief, index_->runs().Brief(run));
  return index_->attachments().Get(brief.id, name);
}

absl::StatusOr<std::vector<AttachmentInfo>> IndexedAttachments::ListAttachments(
    std::string_view run, std::string_view after, size_t limit) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief brief, index_->runs().Brief(run));
  return index_->attachments().List(brief.id, after, limit);
}

absl::StatusOr<std::unique_ptr<AttachmentWriter>> IndexedAttachments::Begin(
    const AttachmentSpec& spec) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, index_->runs().Brief(spec.run));
  MSITD_RETURN_IF_ERROR(
      index_->attachments().CheckRoomFor(run.id, spec.name, spec.replaces));
  MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const uint64_t id, index_->attachments().Begin());
  written_.emplace(id, 0);
  return std::make_unique<Writer>(*this, run.id, id, spec);
}

absl::StatusOr<std::string> IndexedAttachments::ReadAttachment(
    const AttachmentInfo& attachment, uint64_t offset, size_t limit) {
  return index_->attachments().Read(attachment, offset, limit);
}

absl::Status IndexedAttachments::DeleteAttachment(std::string_view run,
                                                  std::string_view name) {
  return index_->DeleteAttachment(run, name);
}

absl::StatusOr<bool> IndexedAttachments::Tidy() {
  std::optional<uint64_t> marked;
  {
    const MutexLock lock(mu_);
    std::set<uint64_t> written;
    for (const auto& [id, bytes] : written_) written.insert(id);
    MSITD_ASSIGN_OR_RETURN(marked, index_->attachments().FirstMarked(written));
    if (!marked.has_value()) return true;
    MSITD_RETURN_IF_ERROR(index_->attachments().RemoveMarked(*marked));
  }
  MSITD_RETURN_IF_ERROR(index_->attachments().GiveRoomBack(*marked));
  return false;
}

absl::Status IndexedAttachments::Reserve(uint64_t id, uint64_t bytes) {
  const MutexLock lock(mu_);
  uint64_t total = index_->attachments().size_bytes() + bytes;
  for (const auto& [other, its_bytes] : written_) total += its_bytes;
  if (total > kStoreAttachmentBytesMax) {
    return Exhausted("the attachments of the store", kStoreAttachmentBytesMax);
  }
  written_[id] += bytes;
  return absl::OkStatus();
}

absl::Status IndexedAttachments::Commit(RunId run, const AttachmentInfo& info,
                                        bool replaces) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(index_->CommitAttachment(run, info, replaces));
  // From now on the table accounts for these bytes.
  written_.erase(info.id);
  return absl::OkStatus();
}

void IndexedAttachments::Forget(uint64_t id) {
  const MutexLock lock(mu_);
  written_.erase(id);
}

}  // namespace msitd::storage
