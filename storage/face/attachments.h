// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/summary.h"

namespace msitd::storage {

struct AttachmentInfo {
  // Identifies these bytes: an attachment that later has the same name has
  // another id.
  uint64_t id = 0;
  std::string name;
  std::string media_type;
  uint64_t size_bytes = 0;
  ContentHash hash;            // HashBytes of all bytes.
  int64_t create_time_ns = 0;  // Since the Unix epoch.
};

// Describes an attachment to write.
struct AttachmentSpec {
  std::string run;
  std::string name;
  std::string media_type;
  bool replaces = false;  // Whether to replace an existing attachment of that
                          // name.
};

// Writes the bytes of one attachment. Created by Attachments::Begin; must be
// destroyed before the store. Uncommitted data is discarded on destruction.
// Thread-compatible.
class AttachmentWriter {
 public:
  virtual ~AttachmentWriter() = default;

  // Appends bytes. After an error nothing more can be written.
  //
  // Errors: RESOURCE_EXHAUSTED with ATTACHMENTS_EXHAUSTED above
  // kAttachmentBytesMax, or above kStoreAttachmentBytesMax together with all
  // others; with DISK_FULL if there is no space.
  virtual absl::Status Append(std::string_view bytes) = 0;

  // Returns the hash of all bytes appended so far.
  virtual ContentHash hash() const = 0;

  // Makes the attachment visible: durable on return, completely or not at all.
  // Must be called at most once.
  //
  // Errors: ALREADY_EXISTS with ATTACHMENT_EXISTS if an attachment exists that
  // must not be replaced; NOT_FOUND with RUN_NOT_FOUND if the run was deleted
  // in the meantime; those of Append.
  virtual absl::StatusOr<AttachmentInfo> Commit() = 0;
};

// Named byte strings that belong to runs, which the store does not interpret. A
// sealed run also accepts them. They are deleted with their run.
//
// Returns NOT_FOUND with RUN_NOT_FOUND or ATTACHMENT_NOT_FOUND for missing
// objects. Thread-safe.
class Attachments {
 public:
  virtual ~Attachments() = default;

  virtual absl::StatusOr<AttachmentInfo> GetAttachment(
      std::string_view run, std::string_view name) = 0;

  // Returns at most `limit` attachments after `after`, ordered by name.
  virtual absl::StatusOr<std::vector<AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) = 0;

  // Errors: those of AttachmentWriter::Commit, as far as they can be detected
  // now; RESOURCE_EXHAUSTED with ATTACHMENTS_EXHAUSTED if the run has
  // kRunAttachmentsMax attachments.
  virtual absl::StatusOr<std::unique_ptr<AttachmentWriter>> Begin(
      const AttachmentSpec& spec) = 0;

  // Returns `limit` bytes of `attachment` starting at `offset`, or all
  // remaining bytes if there are fewer. `offset` must not be past the end.
  //
  // Errors: NOT_FOUND with ATTACHMENT_NOT_FOUND when the bytes are gone because
  // the attachment was deleted or replaced; until then they do not change.
  virtual absl::StatusOr<std::string> ReadAttachment(
      const AttachmentInfo& attachment, uint64_t offset, size_t limit) = 0;

  // The attachment no longer exists on return. Its space is freed by
  // Upkeep::Tidy, like that of replaced or uncommitted attachments.
  virtual absl::Status DeleteAttachment(std::string_view run,
                                        std::string_view name) = 0;
};

}  // namespace msitd::storage
