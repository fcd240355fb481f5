// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/tensor_key.h"

namespace msitd::trees {
struct TreeEntry;
}  // namespace msitd::trees

namespace msitd::msit_command {

// Files that an index remembers, with about 100 bytes each.
inline constexpr size_t kIndexedFilesMax = size_t{1} << 22;

// Maps each tensor of one rank to its file. Run and rank are ignored, unless
// ranks are distinguished. Thread-compatible.
class FileIndex {
 public:
  struct File {
    std::string path;
    // True if it also contains other tensors.
    bool is_shared = false;
  };

  // Distinguishes ranks. Call it before the first file.
  void TellRanksApart() { has_ranks_ = true; }

  // Adds the file of an entry. Returns RESOURCE_EXHAUSTED beyond
  // kIndexedFilesMax.
  absl::Status Note(const trees::TreeEntry& entry);

  // Returns the file of a tensor; without a path if none was added.
  File Find(const TensorKey& key) const;

  void Clear();

 private:
  struct FileLocation {
    uint32_t folder = 0;
    uint32_t name_begin = 0;  // The offset in its chunk of names.
    uint16_t name_bytes = 0;
    bool is_shared = false;
  };
  struct Slot {
    uint64_t hash = 0;
    FileLocation place;
  };

  uint64_t HashOf(const TensorKey& key, std::string_view device,
                  bool is_shared) const;
  const Slot* FindHash(uint64_t hash) const;

  bool has_ranks_ = false;

  // Sorted by hash on the first lookup.
  mutable std::vector<Slot> slots_;
  mutable bool is_sorted_ = true;
  std::map<std::string, uint32_t, std::less<>> folder_numbers_;
  std::vector<std::string_view> folders_;
  std::string names_;
};

// Returns the name that msit gives to a tensor of `file`: the path, followed by
// `,inputs,0` or `,outputs,0` if the file has several tensors.
std::string MsitPath(const FileIndex::File& file, const TensorKey& key);

}  // namespace msitd::msit_command
