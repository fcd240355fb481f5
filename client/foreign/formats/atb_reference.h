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

// Another tensor of the same execution, as a probe of ATB names it where it did
// not save one twice: `3_0_1_outtensor0.bin` is outtensor0.bin of op 1 in op 0
// in op 3.
struct AtbReference {
  std::vector<std::string> ops;  // Their numbers.
  std::string file;
};

// Nothing if it is another name.
std::optional<AtbReference> ParseAtbReference(std::string_view name);

// Remembers which ops lie in a folder, for whoever reads many files of a dump:
// a folder is listed again once it has changed. Memory: 100 bytes for each of
// kListedMax ops. Thread-compatible.
class AtbFolders {
 public:
  // Returns the only folder in `folder` of an op with this number. A link is
  // none.
  std::optional<std::string> Find(const std::string& folder,
                                  const std::string& number);

 private:
  static constexpr size_t kListedMax = size_t{1} << 18;
  // A folder that changed so short before it was listed may have changed once
  // more since, without another time.
  static constexpr std::chrono::nanoseconds kClockStep{std::chrono::seconds(2)};

  struct Listing {
    uint64_t inode = 0;
    int64_t mtime_ns = 0;
    int64_t time_ns = 0;
    // By their numbers; empty for several of one number.
    std::unordered_map<std::string, std::string> ops;
  };
  static Listing List(const std::string& folder);

  std::unordered_map<std::string, Listing> listings_;
  size_t listed_count_ = 0;
};

// Returns where the tensor lies, if a file in `folder` names it:
// `<execution>/<number>_<op>/.../{before,after}`. Takes real folders and files
// below the execution alone, and nothing where two ops have one number.
std::optional<std::string> FindAtbReference(const AtbReference& reference,
                                            const std::string& folder,
                                            AtbFolders& folders);

}  // namespace msitd::formats
