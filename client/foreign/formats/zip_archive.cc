// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// Deflate compresses by at most this factor, with this slack for a short
// member.
constexpr uint64_t kDeflateRatioMax = 1032;
constexpr uint64_t kDeflateSlackBytes = 1024;

// Seeking backward in a deflated member restarts it. A reader that seeks often
// is stopped after this many repeated bytes.
constexpr uint64_t kSkippedBytesMax = uint64_t{16} << 30;

// Adapts a ByteSource for libzip.
struct SourceReader {
  std::shared_ptr<const ByteSource> bytes;
  uint64_t at = 0;
};

zip_int64_t ReadSource(SourceReader& reader, void* data, uint64_t bytes) {
  const uint64_t count = std::min(bytes, reader.bytes->size() - reader.at);
  const std::span<std::byte> out(static_cast<std::byte*>(data), count);
  if (!reader.bytes->ReadAt(reader.at, out).ok()) return -1;
  reader.at += count;
  return static_cast<zip_int64_t>(count);
}

zip_int64_t SeekSource(SourceReader& reader, void* data, uint64_t bytes) {
  const zip_int64_t offset = zip_source_seek_compute_offset(
      reader.at, reader.bytes->size(), data, bytes, nullptr);
  if (offset < 0) return -1;
  reader.at = static_cast<uint64_t>(offset);
  return 0;
}

zip_int64_t StatSource(const SourceReader& reader, void* data) {
  auto* const about = static_cast<zip_stat_t*>(data);
  zip_stat_init(about);
  about->valid = ZIP_STAT_SIZE;
  about->size = reader.bytes->size();
  return sizeof(*about);
}

zip_int64_t CallSource(void* user, void* data, zip_uint64_t bytes,
                       zip_source_cmd_t command) {
  auto* const reader = static_cast<SourceReader*>(user);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      reader->at = 0;
      return 0;
    case ZIP_SOURCE_READ:
      return ReadSource(*reader, data, bytes);
    case ZIP_SOURCE_SEEK:
      return SeekSource(*reader, data, bytes);
    case ZIP_SOURCE_TELL:
      return static_cast<zip_int64_t>(reader->at);
    case ZIP_SOURCE_STAT:
      return StatSource(*reader, data);
    case ZIP_SOURCE_CLOSE:
      return 0;
    case ZIP_SOURCE_ERROR: {
      const std::array<int, 2> error = {ZIP_ER_READ, 0};
      std::copy(error.begin(), error.end(), static_cast<int*>(data));
      return sizeof(error);
    }
    case ZIP_SOURCE_FREE:
      delete reader;
      return 0;
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    default:
      return -1;
  }
}

absl::Status BadZip(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "zip: {}", what);
}

}  // namespace

class ZipArchive::MemberSource final : public ByteSource {
 public:
  MemberSource(std::shared_ptr<ZipArchive> archive, size_t member)
      : archive_(std::move(archive)), member_(member) {}

  uint64_t size() const override { return archive_->members_[member_].bytes; }
  absl::Status ReadAt(uint64_t offset,
                      std::span<std::byte> out) const override {
    if (!Has(offset, out.size())) {
      return absl::DataLossError("the member of the archive is too short");
    }
    return archive_->Read(member_, offset, out);
  }

 private:
  const std::shared_ptr<ZipArchive> archive_;
  const size_t member_;
};

bool IsZip(std::string_view first_bytes) {
  return first_bytes.starts_with("PK\x03\x04") ||
         first_bytes.starts_with("PK\x05\x06");
}

absl::StatusOr<std::shared_ptr<ZipArchive>> ZipArchive::Open(
    std::shared_ptr<const ByteSource> bytes) {
  std::shared_ptr<ZipArchive> archive(new ZipArchive());
  archive->bytes_ = std::move(bytes);
  auto reader = std::make_unique<SourceReader>();
  reader->bytes = archive->bytes_;
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source =
      zip_source_function_create(CallSource, reader.get(), &error);
  if (source == nullptr) return BadZip(zip_error_strerror(&error));
  (void)reader.release();
  archive->zip_ = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (archive->zip_ == nullptr) {
    absl::Status status = BadZip(zip_error_strerror(&error));
    zip_source_free(source);
    zip_error_fini(&error);
    return status;
  }
  zip_error_fini(&error);
  MSITD_RETURN_IF_ERROR(archive->ListMembers(archive->bytes_->size()));
  return archive;
}

ZipArchive::~ZipArchive() {
  Close();
  if (zip_ != nullptr) zip_discard(zip_);
}

absl::Status ZipArchive::ListMembers(uint64_t archive_bytes) {
  const zip_int64_t count = zip_get_num_entries(zip_, 0);
  if (count < 0) return BadZip("it has no directory of members");
  if (static_cast<uint64_t>(count) > kTensorsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "zip: it has {} members; the maximum is {}", count,
                      kTensorsMax);
  }
  uint64_t left = archive_bytes;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE |
                                     ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(zip_, static_cast<zip_uint64_t>(i), 0, &about) != 0 ||
        (about.valid & kNeeded) != kNeeded) {
      return BadZip("a member is not described");
    }
    // Together, they cannot be longer than the archive.
    if (about.comp_size > left) return BadZip("members overlap");
    left -= about.comp_size;
    const bool is_stored = about.comp_method == ZIP_CM_STORE;
    const uint64_t most =
        is_stored ? about.comp_size
                  : about.comp_size * kDeflateRatioMax + kDeflateSlackBytes;
    if (about.size > most) return BadZip("the size of a member is implausible");
    members_.push_back({about.name, about.size, is_stored});
  }
  return absl::OkStatus();
}

void ZipArchive::Close() {
  if (open_ != nullptr) (void)zip_fclose(open_);
  open_ = nullptr;
}

absl::Status ZipArchive::Skip(uint64_t bytes) {
  std::array<char, 4096> ignored;
  while (bytes > 0) {
    const uint64_t count = std::min<uint64_t>(bytes, ignored.size());
    const zip_int64_t got = zip_fread(open_, ignored.data(), count);
    if (got <= 0) return absl::DataLossError("the archive cannot be read");
    bytes -= static_cast<uint64_t>(got);
    at_ += static_cast<uint64_t>(got);
    skipped_ += static_cast<uint64_t>(got);
    if (skipped_ > kSkippedBytesMax) {
      return absl::ResourceExhaustedError(
          "a deflated member would have to be read too often");
    }
  }
  return absl::OkStatus();
}

absl::Status ZipArchive::GoTo(size_t member, uint64_t offset) {
  const bool goes_back = offset < at_ && !members_[member].is_stored;
  if (open_ == nullptr || open_member_ != member || goes_back) {
    Close();
    open_ = zip_fopen_index(zip_, member, 0);
    if (open_ == nullptr) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "the archive cannot be read: {}", zip_strerror(zip_));
    }
    open_member_ = member;
    at_ = 0;
  }
  if (offset == at_) return absl::OkStatus();
  if (!members_[member].is_stored) return Skip(offset - at_);
  if (zip_fseek(open_, static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
    return absl::DataLossError("the archive cannot be read");
  }
  at_ = offset;
  return absl::OkStatus();
}

absl::Status ZipArchive::Read(size_t member, uint64_t offset,
                              std::span<std::byte> out) {
  if (out.empty()) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(GoTo(member, offset));
  while (!out.empty()) {
    const zip_int64_t got = zip_fread(open_, out.data(), out.size());
    if (got <= 0) {
      Close();
      return absl::DataLossError("the archive cannot be read");
    }
    at_ += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

std::shared_ptr<const ByteSource> ZipArchive::BytesOf(
    const std::shared_ptr<ZipArchive>& archive, size_t member) {
  return std::make_shared<MemberSource>(archive, member);
}

}  // namespace msitd::formats
