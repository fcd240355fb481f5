// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/attachments.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Attachments of runs and their bytes, cut into pieces. See Attachments.
//
// The bytes of an id are marked for removal from before the first of them is
// written until the entry that names the id is written, and again when that
// entry is removed, each time in one batch. Bytes that are marked and not being
// written are therefore never read, even after a crash. Thread-safe.
class AttachmentTable {
 public:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  explicit AttachmentTable(IndexDb& db) : db_(db) {}

  // Computes the total size. Must be called once, before everything else.
  absl::Status Load();

  // Returns NOT_FOUND with ATTACHMENT_NOT_FOUND.
  absl::StatusOr<AttachmentInfo> Get(RunId run, std::string_view name);
  absl::StatusOr<std::vector<AttachmentInfo>> List(RunId run,
                                                   std::string_view after,
                                                   size_t limit);
  // Checks whether an attachment with the name can be added. Errors: those of
  // Commit.
  absl::Status CheckRoomFor(RunId run, std::string_view name, bool replaces);

  // Returns a new id, whose bytes are marked for removal.
  absl::StatusOr<uint64_t> Begin();
  // All pieces except the last one must have kPieceBytes.
  absl::Status PutPiece(uint64_t id, uint64_t piece, std::string_view bytes);
  // Durable on return. The run must exist and must not be deleted during the
  // call. Errors: ALREADY_EXISTS with ATTACHMENT_EXISTS; RESOURCE_EXHAUSTED
  // with ATTACHMENTS_EXHAUSTED above kRunAttachmentsMax.
  absl::Status Commit(RunId run, const AttachmentInfo& attachment,
                      bool replaces);

  // Returns NOT_FOUND with ATTACHMENT_NOT_FOUND if pieces no longer exist.
  absl::StatusOr<std::string> Read(const AttachmentInfo& attachment,
                                   uint64_t offset, size_t limit);

  absl::Status Delete(RunId run, std::string_view name);

  // All attachments of a run; must be accepted after the batch is written.
  struct Removal {
    uint64_t bytes = 0;
  };
  absl::StatusOr<Removal> AppendRemovalTo(rocksdb::WriteBatch& batch,
                                          RunId run);
  void AcceptRemoval(const Removal& removal);

  // Returns the first id that is marked for removal and not in `written`;
  // nothing if there is none.
  absl::StatusOr<std::optional<uint64_t>> FirstMarked(
      const std::set<uint64_t>& written);
  // Removes the bytes, and the mark if it still exists. GiveRoomBack must
  // follow.
  absl::Status RemoveMarked(uint64_t id);
  absl::Status GiveRoomBack(uint64_t id);

  // Size of all attachments.
  uint64_t size_bytes();

 private:
  absl::StatusOr<std::optional<AttachmentInfo>> Find(RunId run,
                                                     std::string_view name);
  absl::StatusOr<std::optional<AttachmentInfo>> FindReplaced(
      RunId run, std::string_view name, bool replaces);

  IndexDb& db_;
  // Makes a change and the checks before it atomic.
  Mutex mu_;
  uint64_t size_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// Encodes a value of the table (docs/format/index.md) without the name, which
// is in the key.
std::string EncodeAttachment(const AttachmentInfo& attachment);
bool DecodeAttachment(std::string_view bytes, AttachmentInfo& out);

}  // namespace msitd::storage
