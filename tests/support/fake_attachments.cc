// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_attachments.h"

#include <algorithm>
#include <span>

#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::testing {
namespace {

using Code = absl::StatusCode;
using storage::AttachmentInfo;

absl::Status NotFound(std::string_view name) {
  return WithReason(MakeStatus(Code::kNotFound, "no attachment '{}'", name),
                    ErrorReason::kAttachmentNotFound);
}

ContentHash HashOf(std::string_view bytes) {
  return chunk::HashBytes(std::as_bytes(std::span(bytes)));
}

}  // namespace

class FakeAttachments::Writer final : public storage::AttachmentWriter {
 public:
  Writer(FakeAttachments& store, storage::RunId run,
         const storage::AttachmentSpec& spec)
      : store_(store), run_(run), spec_(spec) {}

  absl::Status Append(std::string_view bytes) override {
    if (bytes_.size() + bytes.size() > kAttachmentBytesMax) {
      return WithReason(MakeStatus(Code::kResourceExhausted,
                                   "more than {} bytes", kAttachmentBytesMax),
                        ErrorReason::kAttachmentsExhausted);
    }
    bytes_ += bytes;
    return absl::OkStatus();
  }
  ContentHash hash() const override { return HashOf(bytes_); }
  absl::StatusOr<AttachmentInfo> Commit() override {
    return store_.Commit(run_, spec_, std::move(bytes_));
  }

 private:
  FakeAttachments& store_;
  const storage::RunId run_;
  const storage::AttachmentSpec spec_;
  std::string bytes_;
};

absl::StatusOr<AttachmentInfo> FakeAttachments::GetAttachment(
    std::string_view run, std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, runs_.GetRun(run));
  const MutexLock lock(mu_);
  const auto it = attachments_.find({info.id, std::string(name)});
  if (it == attachments_.end()) return NotFound(name);
  return it->second.info;
}

absl::StatusOr<std::vector<AttachmentInfo>> FakeAttachments::ListAttachments(
    std::string_view run, std::string_view after, size_t limit) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, runs_.GetRun(run));
  const MutexLock lock(mu_);
  std::vector<AttachmentInfo> out;
  for (auto it = attachments_.upper_bound({info.id, std::string(after)});
       it != attachments_.end() && it->first.first == info.id &&
       out.size() < limit;
       ++it) {
    out.push_back(it->second.info);
  }
  return out;
}

absl::Status FakeAttachments::CheckRoomFor(const Key& key, bool replaces) {
  if (attachments_.contains(key)) {
    if (replaces) return absl::OkStatus();
    return WithReason(MakeStatus(Code::kAlreadyExists,
                                 "there is an attachment '{}'", key.second),
                      ErrorReason::kAttachmentExists);
  }
  const auto count = std::count_if(
      attachments_.begin(), attachments_.end(),
      [&key](const auto& a) { return a.first.first == key.first; });
  if (static_cast<size_t>(count) < kRunAttachmentsMax) return absl::OkStatus();
  return WithReason(
      MakeStatus(Code::kResourceExhausted, "{} attachments", count),
      ErrorReason::kAttachmentsExhausted);
}

absl::StatusOr<std::unique_ptr<storage::AttachmentWriter>>
FakeAttachments::Begin(const storage::AttachmentSpec& spec) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, runs_.GetRun(spec.run));
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(CheckRoomFor({run.id, spec.name}, spec.replaces));
  return std::make_unique<Writer>(*this, run.id, spec);
}

absl::StatusOr<AttachmentInfo> FakeAttachments::Commit(
    storage::RunId run, const storage::AttachmentSpec& spec,
    std::string bytes) {
  const absl::StatusOr<storage::RunInfo> now = runs_.GetRun(spec.run);
  if (!now.ok() || now->id != run) {
    return WithReason(MakeStatus(Code::kNotFound, "no run '{}'", spec.run),
                      ErrorReason::kRunNotFound);
  }
  const MutexLock lock(mu_);
  const Key key(run, spec.name);
  MSITD_RETURN_IF_ERROR(CheckRoomFor(key, spec.replaces));
  Attachment& out = attachments_[key];
  out.info = {++last_id_,   spec.name,     spec.media_type,
              bytes.size(), HashOf(bytes), now->create_time_ns};
  out.bytes = std::move(bytes);
  return out.info;
}

absl::StatusOr<std::string> FakeAttachments::ReadAttachment(
    const AttachmentInfo& attachment, uint64_t offset, size_t limit) {
  const MutexLock lock(mu_);
  for (const auto& [key, found] : attachments_) {
    if (found.info.id != attachment.id) continue;
    return offset < found.bytes.size() ? found.bytes.substr(offset, limit)
                                       : std::string();
  }
  return NotFound(attachment.name);
}

absl::Status FakeAttachments::DeleteAttachment(std::string_view run,
                                               std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, runs_.GetRun(run));
  const MutexLock lock(mu_);
  if (attachments_.erase({info.id, std::string(name)}) == 0) {
    return NotFound(name);
  }
  return absl::OkStatus();
}

}  // namespace msitd::testing
