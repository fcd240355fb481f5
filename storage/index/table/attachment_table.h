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
// The bytes of an id are marked to go from before the first of them until the
// entry that names the id is written, and again from when that is removed, each
// time in one batch. So whatever is marked, and is not being written, nobody
// reads any more, also after a crash. Thread-safe.
class AttachmentTable {
 public:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  explicit AttachmentTable(IndexDb& db) : db_(db) {}

  // Finds out how much there is. Called once, before anything else.
  absl::Status Load();

  // NOT_FOUND with ATTACHMENT_NOT_FOUND.
  absl::StatusOr<AttachmentInfo> Get(RunId run, std::string_view name);
  absl::StatusOr<std::vector<AttachmentInfo>> List(RunId run,
                                                   std::string_view after,
                                                   size_t limit);
  // Whether one of the name may be put there. Errors: those of Commit.
  absl::Status CheckRoomFor(RunId run, std::string_view name, bool replaces);

  // Returns a new id, whose bytes are marked to go.
  absl::StatusOr<uint64_t> Begin();
  // All pieces but the last have kPieceBytes.
  absl::Status PutPiece(uint64_t id, uint64_t piece, std::string_view bytes);
  // Durable on return. The run is there, and stays meanwhile. Errors:
  // ALREADY_EXISTS with ATTACHMENT_EXISTS; RESOURCE_EXHAUSTED with
  // ATTACHMENTS_EXHAUSTED above kRunAttachmentsMax.
  absl::Status Commit(RunId run, const AttachmentInfo& attachment,
                      bool replaces);

  // NOT_FOUND with ATTACHMENT_NOT_FOUND if pieces are not there any more.
  absl::StatusOr<std::string> Read(const AttachmentInfo& attachment,
                                   uint64_t offset, size_t limit);

  absl::Status Delete(RunId run, std::string_view name);

  // All attachments of a run; to be accepted once the batch is written.
  struct Removal {
    uint64_t bytes = 0;
  };
  absl::StatusOr<Removal> AppendRemovalTo(rocksdb::WriteBatch& batch,
                                          RunId run);
  void AcceptRemoval(const Removal& removal);

  // The first id that is marked to go and not in `written`; nothing if there is
  // none.
  absl::StatusOr<std::optional<uint64_t>> FirstMarked(
      const std::set<uint64_t>& written);
  // Removes the bytes and the mark, if that is still there. GiveRoomBack is to
  // follow.
  absl::Status RemoveMarked(uint64_t id);
  absl::Status GiveRoomBack(uint64_t id);

  // Of all attachments that are there.
  uint64_t size_bytes();

 private:
  absl::StatusOr<std::optional<AttachmentInfo>> Find(RunId run,
                                                     std::string_view name);
  absl::StatusOr<std::optional<AttachmentInfo>> FindReplaced(
      RunId run, std::string_view name, bool replaces);

  IndexDb& db_;
  // Makes a change and what it was decided by one step.
  Mutex mu_;
  uint64_t size_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// Values of the table (docs/format/index.md), without the name, which is in the
// key.
std::string EncodeAttachment(const AttachmentInfo& attachment);
bool DecodeAttachment(std::string_view bytes, AttachmentInfo& out);

}  // namespace msitd::storage
