// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "protos/chunk/chunk.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/log_frame.h"

namespace msitd::storage {

// Finds the originals of aliases (docs/format/chunk.md#aliases) before their
// frames are written, and stamps the aliases with data of the originals.
//
// Created for one Append by the holder of the store's append lock, and used
// only by it. The frames must outlive it.
class AliasResolver {
 public:
  // `frames` are about to be written.
  AliasResolver(ChunkIndex& index, std::span<const LogFrame> frames)
      : index_(index), frames_(frames) {}

  // Stamps the summary, the hash and the location of the bytes of all aliases.
  // Originals are searched among earlier records of the frames, which have been
  // placed, then in the index. An original must have the same dtype, the same
  // dims, and the same amount of stored data. If there is none, the location
  // remains 0.
  absl::Status Resolve();

  // Stamps the hashes of samples of the aliases in `chunk`. Must be called for
  // each chunk in order, after the samples of the chunk are gathered.
  void StampSamples(chunk::Chunk& chunk) const;

 private:
  struct Lent {
    chunk::Chunk* chunk = nullptr;
    chunk::RecordDescriptor* alias = nullptr;
    const chunk::RecordDescriptor* original = nullptr;
  };
  class Records;

  absl::Status ResolveOne(const Records& records, const LogFrame& frame,
                          const chunk::RecordExtra& extra,
                          chunk::RecordDescriptor& alias);
  // Searches the index for the original.
  absl::Status FindStored(RunId run, chunk::Chunk& chunk,
                          const chunk::RecordExtra& extra,
                          chunk::RecordDescriptor& alias);

  ChunkIndex& index_;
  const std::span<const LogFrame> frames_;
  // Aliases of records with samples in these frames.
  std::vector<Lent> lent_;
};

}  // namespace msitd::storage
