// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"
#include "storage/read/read_pool.h"

namespace msitd::storage {

// Reads and checks the bytes of parts in the packs of an archived run.
// Thread-safe.
class PackReader {
 public:
  // Maximum size of a request that joins parts and the gaps between them.
  static constexpr uint64_t kReadBytesMax = uint64_t{8} << 20;
  // Maximum gap within a request. Reading a longer gap costs more than another
  // request.
  static constexpr uint64_t kGapBytesMax = uint64_t{256} << 10;

  // All arguments must outlive this object.
  PackReader(ObjectStore& store, const std::string& folder,
             const ArchiveManifest& manifest, ReadPool& pool)
      : store_(store), folder_(folder), manifest_(manifest), pool_(pool) {}

  // See ReadPart, ReadParts and ReadSample of RunReader.
  absl::StatusOr<std::span<const std::byte>> Read(const PartInfo& part,
                                                  AlignedBuffer& buffer);
  std::unique_ptr<PartBatch> ReadBatch(std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer);
  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer);

 private:
  class Batch;

  // Fills `out` with the bytes at `place`.
  absl::Status ReadAt(const PackPlace& place, std::span<std::byte> out);
  absl::Status Corrupt(const PackPlace& place, uint64_t bytes) const;
  absl::Status Damaged(std::string_view problem) const;

  ObjectStore& store_;
  const std::string& folder_;
  const ArchiveManifest& manifest_;
  ReadPool& pool_;
};

}  // namespace msitd::storage
