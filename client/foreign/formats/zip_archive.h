// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/byte_source.h"

struct zip;
struct zip_file;

namespace msitd::formats {

// True for the first bytes of a zip archive.
bool IsZip(std::string_view first_bytes);

// A zip archive. Its members are read where they lie, stored ones from
// anywhere, deflated ones from the beginning on. One member is open at a time.
// Thread-compatible, together with all its members.
class ZipArchive {
 public:
  struct Member {
    std::string name;
    uint64_t bytes = 0;
    bool is_stored = false;
  };

  // INVALID_ARGUMENT for what is no archive, or one that is made to become
  // large: members that lie over each other, or grow more than deflate can
  // shrink. RESOURCE_EXHAUSTED beyond kTensorsMax members.
  static absl::StatusOr<std::shared_ptr<ZipArchive>> Open(
      std::shared_ptr<const ByteSource> bytes);
  ~ZipArchive();

  const std::vector<Member>& members() const { return members_; }

  // The bytes of a member. They keep the archive.
  static std::shared_ptr<const ByteSource> BytesOf(
      const std::shared_ptr<ZipArchive>& archive, size_t member);

 private:
  class MemberSource;

  ZipArchive() = default;

  absl::Status ListMembers(uint64_t archive_bytes);
  absl::Status Read(size_t member, uint64_t offset, std::span<std::byte> out);
  absl::Status GoTo(size_t member, uint64_t offset);
  absl::Status Skip(uint64_t bytes);
  void Close();

  std::shared_ptr<const ByteSource> bytes_;
  struct zip* zip_ = nullptr;
  std::vector<Member> members_;
  // The open member, and where it is. `skipped_` counts bytes that were
  // inflated only to get behind them.
  struct zip_file* open_ = nullptr;
  size_t open_member_ = 0;
  uint64_t at_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace msitd::formats
