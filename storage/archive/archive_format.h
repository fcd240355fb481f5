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

// What the objects of an archived run hold (docs/format/archive.md).
namespace msitd::storage {

inline constexpr std::string_view kManifestName = "manifest";

// No manifest and no directory is larger.
inline constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kDirectoryBytesMax = kObjectBytesMax;

// An archive holds no more entries.
inline constexpr uint64_t kArchiveEntriesMax = uint64_t{1} << 40;

struct ArchiveObject {
  std::string name;
  uint64_t bytes = 0;
  ContentHash hash;

  friend bool operator==(const ArchiveObject&, const ArchiveObject&) = default;
};

void PutArchiveObject(ByteWriter& out, const ArchiveObject& object);
// Reads what anybody may have written; false for what is no object.
bool GetArchiveObject(ByteReader& in, ArchiveObject& object);

struct ArchivedAttachment {
  AttachmentInfo info;
  ArchiveObject object;
};

// What a copy of a run lacks because it could not be read. Such a copy is
// better than none, but nobody may take it for the whole run.
struct UnreadableItems {
  static constexpr size_t kTextsMax = 16;
  static constexpr size_t kTextBytesMax = 1024;

  uint64_t tensor_count = 0;  // Tensors that lack some or all of their bytes.
  uint64_t attachment_count = 0;
  // Of tensor_count, those that can become readable without anybody mending
  // them, because their segment is missing and may return. Only what
  // WriteArchive returns has it: manifests do not store it.
  uint64_t missing_count = 0;
  // The first of them, each with its error, for people.
  std::vector<std::string> texts;

  bool empty() const { return tensor_count == 0 && attachment_count == 0; }
  // Counts one more in `count`, one of the two above.
  void Add(uint64_t& count, std::string_view name, std::string_view problem);
};

// What the manifest says: the run, and the objects that hold it.
struct ArchiveManifest {
  RunInfo run;
  std::vector<RankCoverage> coverage;
  std::vector<ArchivedAttachment> attachments;
  ArchiveObject directory;
  std::vector<ArchiveObject> indexes;
  std::vector<ArchiveObject> packs;
  uint64_t entry_count = 0;
  uint64_t part_count = 0;      // Distinct ones, in the packs.
  int64_t archive_time_ns = 0;  // Since the Unix epoch.
  UnreadableItems unreadable;

  uint64_t ObjectBytes() const;
  // Size of all packs.
  uint64_t PackBytes() const;
  // All objects that the manifest names, in no particular order.
  std::vector<ArchiveObject> Objects() const;
};

std::string EncodeManifest(const ArchiveManifest& manifest);

// Reads what anybody may have written.
//
// Errors: DATA_LOSS for what is damaged; FAILED_PRECONDITION for a later
// format.
absl::StatusOr<ArchiveManifest> DecodeManifest(std::string_view bytes);

// A hash over all of the manifest but when it was made: two archives of one run
// as it is agree in it.
ContentHash ContentOf(const ArchiveManifest& manifest);

// One batch of entries in an index object.
struct ArchiveBlock {
  uint32_t index = 0;  // Of ArchiveManifest::indexes.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  ContentHash hash;
  uint64_t entry_count = 0;
  // OpMark of each op in it, ascending, each once.
  std::vector<uint32_t> ops;
};

// Says in few bytes that an op may be in a block.
uint32_t OpMark(std::string_view op);

// The entries of one rank and device, in the order of tokens.
struct ArchiveGroup {
  int32_t rank = 0;
  uint32_t device = 0;  // Of ArchiveDirectory::devices.
  struct Token {
    int64_t token = 0;
    uint64_t entry_count = 0;
  };
  std::vector<Token> tokens;
};

// Where which entries are: all blocks and all (rank, device, token), both in
// primary order.
struct ArchiveDirectory {
  std::vector<std::string> devices;
  std::vector<std::string> placements;
  std::vector<ArchiveGroup> groups;
  std::vector<ArchiveBlock> blocks;
};

std::string EncodeDirectory(const ArchiveDirectory& directory);

// Reads what anybody may have written. The counts of groups and blocks agree
// with `manifest`, and blocks lie within its indexes.
//
// Errors: DATA_LOSS.
absl::StatusOr<ArchiveDirectory> DecodeDirectory(
    std::string_view bytes, const ArchiveManifest& manifest);

// Where the bytes of a part lie in the packs.
struct PackPlace {
  uint32_t pack = 0;  // Of ArchiveManifest::packs.
  uint64_t offset = 0;
};

// What an archive has of the bytes of a part.
enum class PackedBytes {
  kNone,        // They were given up before, or never kept.
  kPacked,      // They lie in a pack.
  kUnreadable,  // They could not be read when the run was archived.
};

// The bytes of a part in an archive; `place` counts for kPacked only.
struct ArchivedBytes {
  PackedBytes state = PackedBytes::kNone;
  PackPlace place = {};
};

// Returns the place of a part for a reader of an archive. It compares as
// `received`, its place in the store, does, and says where its bytes lie.
//
// Errors: FAILED_PRECONDITION for a place that is too large.
absl::StatusOr<PartPlace> ArchivedPlace(const PartPlace& received,
                                        const ArchivedBytes& bytes);

// The inverse.
ArchivedBytes FindArchivedBytes(const PartPlace& place);

// The place that ArchivedPlace was given.
PartPlace ReceivedPlace(const PartPlace& place);

}  // namespace msitd::storage
