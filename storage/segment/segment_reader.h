// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/segment/read_around.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// Reads parts of tensors from segments. Keeps the files that were read last
// open, and reads ahead of small parts that are asked for one after the other
// (ReadAround). Thread-safe.
class SegmentReader {
 public:
  // Files kept open; the one not read for longest is closed first.
  static constexpr size_t kOpenSegmentsMax = 64;

  // `directory` holds the segment files.
  SegmentReader(Env& env, std::string directory, bool direct)
      : env_(env), directory_(std::move(directory)), direct_(direct) {}

  // See RunReader::ReadPart. `part.place` is a place in the log: the number of
  // a segment and an offset in its file.
  absl::StatusOr<std::span<const std::byte>> Read(const PartInfo& part,
                                                  AlignedBuffer& buffer);

  // Reads the sample of a part, of `bytes`, in the same way.
  absl::StatusOr<std::span<const std::byte>> ReadSample(const PartInfo& part,
                                                        uint64_t bytes,
                                                        AlignedBuffer& buffer);

  // The same for any bytes of a segment, which are not checked.
  absl::StatusOr<std::span<const std::byte>> ReadUnchecked(
      SegmentId segment, uint64_t offset, uint64_t bytes,
      AlignedBuffer& buffer);

  // Fills `out` with whole pages from `offset` on and returns how many bytes
  // these are: fewer only at the end of the file.
  absl::StatusOr<uint64_t> ReadPages(SegmentId segment, uint64_t offset,
                                     std::span<std::byte> out);

  // Closes the file of a segment that is to be removed.
  void Forget(SegmentId segment);

 private:
  // Shared by the cache and every read in progress; the last one closes.
  using SharedFile = std::shared_ptr<File>;
  struct Entry {
    uint64_t segment;
    SharedFile file;
  };

  absl::StatusOr<SharedFile> Open(SegmentId segment);
  // Returns bytes that `is_right` accepts, from the memory of around_ if it has
  // them.
  absl::StatusOr<std::span<const std::byte>> ReadChecked(
      const PartInfo& part, uint64_t bytes, AlignedBuffer& buffer,
      absl::FunctionRef<bool(std::span<const std::byte>)> is_right);
  // Reads a piece together with what follows it; false if that cannot be done.
  bool ReadOn(const PartPlace& place, std::span<std::byte> out);

  Env& env_;
  const std::string directory_;
  const bool direct_;
  ReadAround around_;

  Mutex mu_;
  std::list<Entry> recent_ ABSL_GUARDED_BY(mu_);  // The latest first.
  std::unordered_map<uint64_t, std::list<Entry>::iterator> entries_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
