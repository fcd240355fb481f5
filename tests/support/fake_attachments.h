// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/status/mutex.h"
#include "storage/face/attachments.h"
#include "storage/face/runs.h"

namespace msitd::testing {

// Attachments in memory that keep the promises of a real store. Attachments of
// deleted runs are not visible. Thread-safe.
class FakeAttachments final : public storage::Attachments {
 public:
  // `runs` provides the existing runs, and must outlive this object.
  explicit FakeAttachments(storage::Runs& runs) : runs_(runs) {}

  absl::StatusOr<storage::AttachmentInfo> GetAttachment(
      std::string_view run, std::string_view name) override;
  absl::StatusOr<std::vector<storage::AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) override;
  absl::StatusOr<std::unique_ptr<storage::AttachmentWriter>> Begin(
      const storage::AttachmentSpec& spec) override;
  absl::StatusOr<std::string> ReadAttachment(
      const storage::AttachmentInfo& attachment, uint64_t offset,
      size_t limit) override;
  absl::Status DeleteAttachment(std::string_view run,
                                std::string_view name) override;

 private:
  class Writer;
  using Key = std::pair<storage::RunId, std::string>;
  struct Attachment {
    storage::AttachmentInfo info;
    std::string bytes;
  };

  absl::Status CheckRoomFor(const Key& key, bool replaces)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<storage::AttachmentInfo> Commit(
      storage::RunId run, const storage::AttachmentSpec& spec,
      std::string bytes);

  storage::Runs& runs_;
  Mutex mu_;
  std::map<Key, Attachment> attachments_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace msitd::testing
