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

// Returns true for the first bytes of a zip archive.
bool IsZip(std::string_view first_bytes);

// A zip archive. Members are read in place: stored ones with random access,
// deflated ones from the beginning. One member is open at a time.
// Thread-compatible, together with all its members.
class ZipArchive {
 public:
  struct Member {
    std::string name;
    uint64_t bytes = 0;
    bool is_stored = false;
  };

  // Returns INVALID_ARGUMENT if the bytes are not an archive or are a zip bomb:
  // members that overlap, or that expand more than deflate allows. Returns
  // RESOURCE_EXHAUSTED beyond kTensorsMax members.
  static absl::StatusOr<std::shared_ptr<ZipArchive>> Open(
      std::shared_ptr<const ByteSource> bytes);
  ~ZipArchive();

  const std::vector<Member>& members() const { return members_; }

  // Returns the bytes of a member. They keep the archive alive.
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
  // The open member and the position in it. `skipped_` counts the bytes that
  // were inflated only to be skipped.
  struct zip_file* open_ = nullptr;
  size_t open_member_ = 0;
  uint64_t at_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace msitd::formats
