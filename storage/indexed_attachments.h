// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/disk_room.h"
#include "storage/env/env.h"
#include "storage/face/attachments.h"
#include "storage/index/index_gate.h"

namespace msitd::storage {

// The attachments of a store, which are stored in its index. Thread-safe.
class IndexedAttachments final : public Attachments {
 public:
  // All arguments must outlive this object.
  IndexedAttachments(IndexGate& index, Env& env, DiskRoom& room)
      : index_(index), env_(env), room_(room) {}

  absl::StatusOr<AttachmentInfo> GetAttachment(std::string_view run,
                                               std::string_view name) override;
  absl::StatusOr<std::vector<AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) override;
  absl::StatusOr<std::unique_ptr<AttachmentWriter>> Begin(
      const AttachmentSpec& spec) override;
  absl::StatusOr<std::string> ReadAttachment(const AttachmentInfo& attachment,
                                             uint64_t offset,
                                             size_t limit) override;
  absl::Status DeleteAttachment(std::string_view run,
                                std::string_view name) override;

  // Frees the bytes of one attachment that is no longer read or written; true
  // if there was none. See Upkeep.
  absl::StatusOr<bool> Tidy();

 private:
  class Writer;

  // Accounts for bytes that are about to be written.
  absl::Status Reserve(uint64_t id, uint64_t bytes);
  absl::Status Commit(RunId run, const AttachmentInfo& info, bool replaces);
  // Called when the writer of the id has ended.
  void Forget(uint64_t id);

  IndexGate& index_;
  Env& env_;
  DiskRoom& room_;

  // Bytes that are being written, by id. Locked during each step of a writer
  // that adds or removes a mark, so that Tidy does not mistake its data for
  // leftovers.
  Mutex mu_;
  std::map<uint64_t, uint64_t> written_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
