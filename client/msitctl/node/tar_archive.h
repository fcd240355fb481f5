// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::msitctl {

// Creates a tar archive of regular files in memory, in the ustar format of
// POSIX. Thread-compatible.
class TarArchive {
 public:
  // `time_s`, since the Unix epoch, is the modification time of all files.
  explicit TarArchive(int64_t time_s) : time_s_(time_s) {}

  // `path` has 1 to 99 bytes, `content` less than 8 GiB.
  void Add(std::string_view path, std::string_view content);

  // Ends the archive and returns it. Called once, last.
  std::string Finish();

 private:
  const int64_t time_s_;
  std::string bytes_;
};

}  // namespace msitd::msitctl
