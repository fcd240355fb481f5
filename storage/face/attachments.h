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
  // Of these bytes: others of the same name have another one.
  uint64_t id = 0;
  std::string name;
  std::string media_type;
  uint64_t size_bytes = 0;
  ContentHash hash;            // HashBytes of all bytes.
  int64_t create_time_ns = 0;  // Since the Unix epoch.
};

// What is to be written.
struct AttachmentSpec {
  std::string run;
  std::string name;
  std::string media_type;
  bool replaces = false;  // One of that name, if it is there.
};

// The bytes of one attachment on their way in. Made by Attachments::Begin;
// ends before the store. What was not committed when it ends is given up.
// Thread-compatible.
class AttachmentWriter {
 public:
  virtual ~AttachmentWriter() = default;

  // Takes the next bytes. After an error nothing more can be written.
  //
  // Errors: RESOURCE_EXHAUSTED with ATTACHMENTS_EXHAUSTED above
  // kAttachmentBytesMax, or above kStoreAttachmentBytesMax with all others;
  // with DISK_FULL if there is no room.
  virtual absl::Status Append(std::string_view bytes) = 0;

  // Of what was appended so far.
  virtual ContentHash hash() const = 0;

  // Makes the attachment be there: durable on return, whole or not at all.
  // Called once.
  //
  // Errors: ALREADY_EXISTS with ATTACHMENT_EXISTS if there is one that is not
  // to be replaced; NOT_FOUND with RUN_NOT_FOUND if the run was deleted
  // meanwhile; those of Append.
  virtual absl::StatusOr<AttachmentInfo> Commit() = 0;
};

// Named bytes that belong to runs, opaque to the store. A sealed run takes them
// too. They go with their run.
//
// NOT_FOUND with RUN_NOT_FOUND or ATTACHMENT_NOT_FOUND for what is not there.
// Thread-safe.
class Attachments {
 public:
  virtual ~Attachments() = default;

  virtual absl::StatusOr<AttachmentInfo> GetAttachment(
      std::string_view run, std::string_view name) = 0;

  // Returns at most `limit` attachments behind `after` in the order of names.
  virtual absl::StatusOr<std::vector<AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) = 0;

  // Errors: those of AttachmentWriter::Commit, as far as they can be told now;
  // RESOURCE_EXHAUSTED with ATTACHMENTS_EXHAUSTED if the run has
  // kRunAttachmentsMax.
  virtual absl::StatusOr<std::unique_ptr<AttachmentWriter>> Begin(
      const AttachmentSpec& spec) = 0;

  // Returns bytes of `attachment` from `offset` on, which is not behind its
  // end: `limit` of them, or what is left.
  //
  // Errors: NOT_FOUND with ATTACHMENT_NOT_FOUND once they are gone because it
  // was deleted or replaced; until then they are what they were.
  virtual absl::StatusOr<std::string> ReadAttachment(
      const AttachmentInfo& attachment, uint64_t offset, size_t limit) = 0;

  // Gone on return; the room is given back by Upkeep::Tidy, and so is that of
  // what was replaced or never committed.
  virtual absl::Status DeleteAttachment(std::string_view run,
                                        std::string_view name) = 0;
};

}  // namespace msitd::storage
