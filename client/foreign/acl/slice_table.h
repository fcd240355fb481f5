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

// A slice of a file, borrowed.
struct Slice {
  std::string_view file;
  // Nothing: at the end of what is there.
  std::optional<uint64_t> offset;
  std::span<const std::byte> bytes;
  bool is_last = false;
};

// A file whose slices have come.
struct DumpFile {
  std::string path;
  std::shared_ptr<const formats::ByteSource> bytes;
  // What it takes of the memory: for SliceTable::Release.
  uint64_t charged_bytes = 0;
  // False if slices are missing: `bytes` has what lies before the first gap.
  bool is_whole = true;
};

// Puts slices together to files, in memory. Callbacks of CANN bring slices, one
// thread takes files out. Thread-safe.
//
// A file of which a slice cannot be kept is lost as a whole, and counted: what
// came of it is let go, and what comes later is passed over.
class SliceTable {
 public:
  using Clock = std::chrono::steady_clock;

  // What a slice, and a file, take beside their bytes.
  static constexpr uint64_t kSliceBytes = 192;
  static constexpr uint64_t kFileBytes = 512;
  // Files that have begun and not ended, and those that are remembered as
  // passed over: of one beyond that, later slices become an incomplete file.
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
    // Those for Lose that do not say their file.
    uint64_t nameless_slice_count = 0;

    uint64_t lost_count() const {
      return lost_file_count + nameless_slice_count;
    }
  };

  // `on_lost` is called without a lock, on the thread that brings the slice.
  SliceTable(
      const Options& options,
      std::function<void(std::string_view why, std::string_view file)> on_lost);

  // Copies the slice. May wait for room as the options say. Throws only what
  // `on_lost` throws.
  void Put(const Slice& slice);
  // Loses `file` for a slice that cannot be read. It is empty if that does not
  // say its file.
  void Lose(std::string_view file, std::string_view why);

  // Takes a file out. Waits until `deadline` or a call of Wake for one.
  std::optional<DumpFile> Take(Clock::time_point deadline);
  void Wake();
  // Takes the files out that have not ended, with what there is of them. After
  // that their slices are passed over, and files that begin are lost.
  std::optional<DumpFile> TakeOpen();
  // The file is no longer in memory.
  void Release(uint64_t charged_bytes);

  // Returns the paths that begin with `prefix` of files that have begun and not
  // ended; at most kOpenFilesShown.
  std::vector<std::string> OpenFiles(std::string_view prefix) const;
  // True while files should be let go soon.
  bool is_short_of_memory() const;
  Counts counts() const;

 private:
  struct OpenFile {
    DumpBytes bytes;
    uint64_t charged_bytes = 0;
    bool has_last = false;
  };

  // Keeps the slice, or passes it over, or says why it cannot be kept. Then, or
  // if it throws, the caller lets go `charged_bytes`.
  std::string_view TryPut(const Slice& slice, uint64_t& charged_bytes);
  // Why the slice cannot be kept; empty if it can.
  std::string_view WhyNot(const Slice& slice) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes `bytes` of the memory, and waits for them.
  bool Charge(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves `charged_bytes` to the file.
  void Insert(const Slice& slice, std::shared_ptr<const std::byte[]> memory,
              uint64_t& charged_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Uncharge(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False if the file is passed over already.
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
  // Lost files, and those that TakeOpen took.
  std::set<std::string, std::less<>> passed_over_ ABSL_GUARDED_BY(mu_);
  std::deque<DumpFile> whole_ ABSL_GUARDED_BY(mu_);
  uint64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Counts counts_ ABSL_GUARDED_BY(mu_);
  bool is_woken_ ABSL_GUARDED_BY(mu_) = false;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::acl
