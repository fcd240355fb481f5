// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/byte_codec.h"
#include "protos/base/summary.h"
#include "storage/archive/object_store.h"
#include "storage/face/attachments.h"
#include "storage/face/types.h"

// Contents of the objects of an archived run (docs/format/archive.md).
namespace msitd::storage {

inline constexpr std::string_view kManifestName = "manifest";

// Maximum sizes of a manifest and of a directory.
inline constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kDirectoryBytesMax = kObjectBytesMax;

// Maximum number of entries in an archive.
inline constexpr uint64_t kArchiveEntriesMax = uint64_t{1} << 40;

struct ArchiveObject {
  std::string name;
  uint64_t bytes = 0;
  ContentHash hash;

  friend bool operator==(const ArchiveObject&, const ArchiveObject&) = default;
};

void PutArchiveObject(ByteWriter& out, const ArchiveObject& object);
// Decodes untrusted bytes; false if they are not a valid object.
bool GetArchiveObject(ByteReader& in, ArchiveObject& object);

struct ArchivedAttachment {
  AttachmentInfo info;
  ArchiveObject object;
};

// Data that is missing from a copy of a run because it could not be read. Such
// a copy is better than none, but it must never be mistaken for the complete
// run.
struct UnreadableItems {
  static constexpr size_t kTextsMax = 16;
  static constexpr size_t kTextBytesMax = 1024;

  uint64_t tensor_count = 0;  // Tensors with some or all bytes missing.
  uint64_t attachment_count = 0;
  // Tensors among tensor_count that may become readable without a repair,
  // because their segment is missing and may return. Set only in the result of
  // WriteArchive; manifests do not store it.
  uint64_t missing_count = 0;
  // The first of these items with their errors, for users.
  std::vector<std::string> texts;

  bool empty() const { return tensor_count == 0 && attachment_count == 0; }
  // Increments `count`, which is one of the two counts above, and adds the
  // text.
  void Add(uint64_t& count, std::string_view name, std::string_view problem);
};

// Contents of the manifest: the run, and the objects that store it.
struct ArchiveManifest {
  RunInfo run;
  std::vector<RankCoverage> coverage;
  std::vector<ArchivedAttachment> attachments;
  ArchiveObject directory;
  std::vector<ArchiveObject> indexes;
  std::vector<ArchiveObject> packs;
  uint64_t entry_count = 0;
  uint64_t part_count = 0;      // Distinct parts in the packs.
  int64_t archive_time_ns = 0;  // Since the Unix epoch.
  UnreadableItems unreadable;

  uint64_t ObjectBytes() const;
  // Returns the total size of all packs.
  uint64_t PackBytes() const;
  // Returns all objects that the manifest names, in no particular order.
  std::vector<ArchiveObject> Objects() const;
};

std::string EncodeManifest(const ArchiveManifest& manifest);

// Decodes untrusted bytes.
//
// Errors: DATA_LOSS for damaged bytes; FAILED_PRECONDITION for a later format.
absl::StatusOr<ArchiveManifest> DecodeManifest(std::string_view bytes);

// Returns a hash over the manifest without its creation time. It is equal for
// two archives of the same state of a run.
ContentHash ContentOf(const ArchiveManifest& manifest);

// One batch of entries in an index object.
struct ArchiveBlock {
  uint32_t index = 0;  // Index into ArchiveManifest::indexes.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  ContentHash hash;
  uint64_t entry_count = 0;
  // The distinct OpMarks of its ops, ascending.
  std::vector<uint32_t> ops;
};

// Returns a short mark of an op, which is used to exclude blocks without the
// op.
uint32_t OpMark(std::string_view op);

// The entries of one rank and device, ordered by token.
struct ArchiveGroup {
  int32_t rank = 0;
  uint32_t device = 0;  // Index into ArchiveDirectory::devices.
  struct Token {
    int64_t token = 0;
    uint64_t entry_count = 0;
  };
  std::vector<Token> tokens;
};

// Locations of the entries: all blocks and all (rank, device, token), both in
// primary order.
struct ArchiveDirectory {
  std::vector<std::string> devices;
  std::vector<std::string> placements;
  std::vector<ArchiveGroup> groups;
  std::vector<ArchiveBlock> blocks;
};

std::string EncodeDirectory(const ArchiveDirectory& directory);

// Decodes untrusted bytes. Checks that the counts of groups and blocks match
// `manifest`, and that blocks are within its indexes.
//
// Errors: DATA_LOSS.
absl::StatusOr<ArchiveDirectory> DecodeDirectory(
    std::string_view bytes, const ArchiveManifest& manifest);

// Location of the bytes of a part in the packs.
struct PackPlace {
  uint32_t pack = 0;  // Index into ArchiveManifest::packs.
  uint64_t offset = 0;
};

// State of the bytes of a part in an archive.
enum class PackedBytes {
  kNone,        // They were discarded earlier, or never stored.
  kPacked,      // They are in a pack.
  kUnreadable,  // They could not be read when the run was archived.
};

// The bytes of a part in an archive; `place` is valid for kPacked only.
struct ArchivedBytes {
  PackedBytes state = PackedBytes::kNone;
  PackPlace place = {};
};

// Returns the location of a part for a reader of an archive. It compares like
// `received`, the part's location in the store, and states where the archive
// has its bytes.
//
// Errors: FAILED_PRECONDITION for a location that is too large.
absl::StatusOr<PartPlace> ArchivedPlace(const PartPlace& received,
                                        const ArchivedBytes& bytes);

// Inverse of ArchivedPlace for `bytes`.
ArchivedBytes FindArchivedBytes(const PartPlace& place);

// Inverse of ArchivedPlace for `received`.
PartPlace ReceivedPlace(const PartPlace& place);

}  // namespace msitd::storage
