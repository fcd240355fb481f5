// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/write/output_folder.h"

namespace msitd::write {

// Writes a zip archive whose members are stored uncompressed, each at a
// multiple of kMemberAlignment, with zip64 if sizes require it. Keeps the names
// of the members in memory. Thread-compatible.
class ZipWriter {
 public:
  static constexpr uint64_t kMemberAlignment = 64;

  // Borrows `file`, which is empty.
  explicit ZipWriter(OutputFile& file) : file_(file) {}

  // Begins a member of `size_bytes`. `name` is ASCII of at most 4096 bytes.
  absl::Status Begin(std::string_view name, uint64_t size_bytes);
  absl::Status Write(std::string_view bytes);
  // Ends the member. Returns FAILED_PRECONDITION unless all of its bytes were
  // written.
  absl::Status End();
  // Discards the open member.
  absl::Status Drop();

  // Adds a complete member.
  absl::Status Add(std::string_view name, std::string_view bytes);

  // Ends the archive.
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    uint32_t crc = 0;
  };

  OutputFile& file_;
  std::vector<Member> members_;
  Member now_;
  uint64_t written_ = 0;
};

}  // namespace msitd::write
