// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace msitd::formats {

// A reference to another tensor of the same execution. A probe of ATB writes
// one instead of saving a tensor twice: `3_0_1_outtensor0.bin` is
// outtensor0.bin of op 1 in op 0 in op 3.
struct AtbReference {
  std::vector<std::string> ops;  // The numbers of the ops.
  std::string file;
};

// Returns nothing if the name has another form.
std::optional<AtbReference> ParseAtbReference(std::string_view name);

// Caches the ops in each folder for readers of many files of a dump. A folder
// is listed again after it has changed. Memory: 100 bytes for each of at most
// kListedMax ops. Thread-compatible.
class AtbFolders {
 public:
  // Returns the only folder in `folder` of an op with this number. Links are
  // ignored.
  std::optional<std::string> Find(const std::string& folder,
                                  const std::string& number);

 private:
  static constexpr size_t kListedMax = size_t{1} << 18;
  // A folder that changed less than this before it was listed may have changed
  // once more with the same modification time.
  static constexpr std::chrono::nanoseconds kClockStep{std::chrono::seconds(2)};

  struct Listing {
    uint64_t inode = 0;
    int64_t mtime_ns = 0;
    int64_t time_ns = 0;
    // Keyed by number. Empty if several ops have the same number.
    std::unordered_map<std::string, std::string> ops;
  };
  static Listing List(const std::string& folder);

  std::unordered_map<std::string, Listing> listings_;
  size_t listed_count_ = 0;
};

// Returns the path of the tensor that a file in `folder` refers to:
// `<execution>/<number>_<op>/.../{before,after}`. Accepts only real folders and
// files below the execution. Returns nothing if two ops have the same number.
std::optional<std::string> FindAtbReference(const AtbReference& reference,
                                            const std::string& folder,
                                            AtbFolders& folders);

}  // namespace msitd::formats
