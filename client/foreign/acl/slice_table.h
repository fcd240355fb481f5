// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/acl/dump_bytes.h"
#include "client/libmsit/core/overflow.h"
#include "protos/status/mutex.h"

namespace msitd::acl {

// A slice of a file. Borrows its data.
struct Slice {
  std::string_view file;
  // Nothing if the slice is to be appended.
  std::optional<uint64_t> offset;
  std::span<const std::byte> bytes;
  bool is_last = false;
};

// A file assembled from its slices.
struct DumpFile {
  std::string path;
  std::shared_ptr<const formats::ByteSource> bytes;
  // Memory to release with SliceTable::Release.
  uint64_t charged_bytes = 0;
  // False if slices are missing. `bytes` then ends at the first gap.
  bool is_whole = true;
};

// Assembles files from slices, in memory. Callbacks of CANN add slices, and one
// thread takes files out. Thread-safe.
//
// If a slice of a file cannot be kept, the whole file is lost and counted. Its
// earlier slices are released and its later slices are ignored.
class SliceTable {
 public:
  using Clock = std::chrono::steady_clock;

  // Memory for a slice and for a file, in addition to their bytes.
  static constexpr uint64_t kSliceBytes = 192;
  static constexpr uint64_t kFileBytes = 512;
  // Files that have begun and not ended, and lost files whose later slices are
  // ignored. Beyond the second limit, later slices of a lost file become an
  // incomplete file.
  static constexpr size_t kOpenFilesMax = 131'072;
  static constexpr size_t kLostNamesMax = 65'536;
  static constexpr size_t kOpenFilesShown = 1024;

  struct Options {
    uint64_t memory_bytes_max = 0;
    libmsit::OverflowMode overflow = libmsit::OverflowMode::kBlock;
    std::chrono::microseconds max_block{0};
  };

  struct Counts {
    uint64_t slice_count = 0;
    uint64_t lost_file_count = 0;
    // Calls of Lose without a file.
    uint64_t nameless_slice_count = 0;

    uint64_t lost_count() const {
      return lost_file_count + nameless_slice_count;
    }
  };

  // `on_lost` is called without a lock, on the thread that adds the slice.
  SliceTable(
      const Options& options,
      std::function<void(std::string_view why, std::string_view file)> on_lost);

  // Copies the slice. May wait for memory as the options specify. Throws only
  // exceptions of `on_lost`.
  void Put(const Slice& slice);
  // Counts `file` as lost because one of its slices cannot be read. `file` is
  // empty if the slice does not name it.
  void Lose(std::string_view file, std::string_view why);

  // Takes a file out. Waits for one until `deadline` or a call of Wake.
  std::optional<DumpFile> Take(Clock::time_point deadline);
  void Wake();
  // Takes an unfinished file out, with the bytes that it has. After this call,
  // further slices of such files are ignored, and files that begin are lost.
  std::optional<DumpFile> TakeOpen();
  // Requires that the file is no longer in memory.
  void Release(uint64_t charged_bytes);

  // Returns the paths that begin with `prefix` of unfinished files, at most
  // kOpenFilesShown.
  std::vector<std::string> OpenFiles(std::string_view prefix) const;
  // Returns true while files should be released soon.
  bool is_short_of_memory() const;
  Counts counts() const;

 private:
  struct OpenFile {
    DumpBytes bytes;
    uint64_t charged_bytes = 0;
    bool has_last = false;
  };

  // Keeps the slice, ignores it, or returns why it cannot be kept. In the last
  // two cases, and if it throws, the caller releases `charged_bytes`.
  std::string_view TryPut(const Slice& slice, uint64_t& charged_bytes);
  // Returns why the slice cannot be kept; empty if it can.
  std::string_view WhyNot(const Slice& slice) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reserves `bytes` of the memory, and waits for them if necessary.
  bool Charge(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves `charged_bytes` to the file.
  void Insert(const Slice& slice, std::shared_ptr<const std::byte[]> memory,
              uint64_t& charged_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Uncharge(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns false if slices of the file are already ignored.
  bool MarkLost(std::string_view file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PassOver(std::string_view file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  DumpFile MoveOut(std::string path, OpenFile& file, bool is_whole);

  const Options options_;
  const std::function<void(std::string_view, std::string_view)> on_lost_;

  mutable Mutex mu_;
  CondVar room_;
  CondVar work_;
  libmsit::Overflow overflow_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, OpenFile, std::less<>> open_ ABSL_GUARDED_BY(mu_);
  // Lost files, and files that TakeOpen returned.
  std::set<std::string, std::less<>> passed_over_ ABSL_GUARDED_BY(mu_);
  std::deque<DumpFile> whole_ ABSL_GUARDED_BY(mu_);
  uint64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Counts counts_ ABSL_GUARDED_BY(mu_);
  bool is_woken_ ABSL_GUARDED_BY(mu_) = false;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::acl
