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

// Reads parts of tensors from segments. Keeps recently used files open, and
// reads ahead when small parts are requested one after the other (ReadAround).
// Thread-safe.
class SegmentReader {
 public:
  // Maximum number of open files; the least recently read one is closed first.
  static constexpr size_t kOpenSegmentsMax = 64;

  // `directory` has the segment files.
  SegmentReader(Env& env, std::string directory, bool direct)
      : env_(env), directory_(std::move(directory)), direct_(direct) {}

  // See RunReader::ReadPart. `part.place` is a position in the log: the number
  // of a segment and an offset in its file.
  absl::StatusOr<std::span<const std::byte>> Read(const PartInfo& part,
                                                  AlignedBuffer& buffer);

  // Reads the sample of a part, which has `bytes` bytes, in the same way.
  absl::StatusOr<std::span<const std::byte>> ReadSample(const PartInfo& part,
                                                        uint64_t bytes,
                                                        AlignedBuffer& buffer);

  // Reads any bytes of a segment in the same way, without checking them.
  absl::StatusOr<std::span<const std::byte>> ReadUnchecked(
      SegmentId segment, uint64_t offset, uint64_t bytes,
      AlignedBuffer& buffer);

  // Fills `out` with whole pages starting at `offset` and returns the number of
  // bytes read, which is smaller than `out` only at the end of the file.
  absl::StatusOr<uint64_t> ReadPages(SegmentId segment, uint64_t offset,
                                     std::span<std::byte> out);

  // Closes the file of a segment that is about to be removed.
  void Forget(SegmentId segment);

 private:
  // Shared by the cache and every read in progress; the last owner closes it.
  using SharedFile = std::shared_ptr<File>;
  struct Entry {
    uint64_t segment;
    SharedFile file;
  };

  absl::StatusOr<SharedFile> Open(SegmentId segment);
  // Returns bytes that `is_right` accepts, from the cache of around_ if
  // possible.
  absl::StatusOr<std::span<const std::byte>> ReadChecked(
      const PartInfo& part, uint64_t bytes, AlignedBuffer& buffer,
      absl::FunctionRef<bool(std::span<const std::byte>)> is_right);
  // Reads a piece together with the bytes after it; false if this is not
  // possible.
  bool ReadOn(const PartPlace& place, std::span<std::byte> out);

  Env& env_;
  const std::string directory_;
  const bool direct_;
  ReadAround around_;

  Mutex mu_;
  std::list<Entry> recent_ ABSL_GUARDED_BY(mu_);  // Most recent first.
  std::unordered_map<uint64_t, std::list<Entry>::iterator> entries_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
