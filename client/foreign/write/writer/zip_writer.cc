// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/zip_writer.h"

#include <utility>

#include "client/foreign/write/writer/crc32.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;

// The version of the program that is required to read it: 4.5 supports zip64.
constexpr uint16_t kVersion = 45;
// The first date of the format.
constexpr uint32_t kDate = 0x00210000;
constexpr uint16_t kZip64Field = 0x0001;
// Readers skip an unknown field. It is only used for padding.
constexpr uint16_t kPaddingField = 0x4246;
constexpr uint64_t kFieldHeadBytes = 4;

constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kCrcOffset = 14;
constexpr uint32_t kMax32 = 0xffffffff;
constexpr uint16_t kMax16 = 0xffff;
constexpr uint64_t kEnd64Bytes = 44;

template <typename... Ints>
void Append(std::string& out, Ints... values) {
  const auto one = [&out](auto value) {
    for (size_t i = 0; i < sizeof(value); ++i) {
      out += static_cast<char>(static_cast<uint64_t>(value) >> 8 * i & 0xff);
    }
  };
  (one(values), ...);
}

uint32_t Clamp(uint64_t value) {
  return value < kMax32 ? static_cast<uint32_t>(value) : kMax32;
}

}  // namespace

absl::Status ZipWriter::Begin(std::string_view name, uint64_t size_bytes) {
  now_ = {std::string(name), file_.size(), size_bytes, 0};
  written_ = 0;
  std::string extra;
  if (size_bytes >= kMax32) {
    Append(extra, kZip64Field, uint16_t{16}, size_bytes, size_bytes);
  }
  const uint64_t begin =
      file_.size() + kLocalBytes + name.size() + extra.size() + kFieldHeadBytes;
  const auto padding = static_cast<uint16_t>(
      (kMemberAlignment - begin % kMemberAlignment) % kMemberAlignment);
  Append(extra, kPaddingField, padding);
  extra.append(padding, '\0');
  std::string head;
  Append(head, kLocalSignature, kVersion, uint16_t{0}, uint16_t{0}, kDate,
         uint32_t{0}, Clamp(size_bytes), Clamp(size_bytes),
         static_cast<uint16_t>(name.size()),
         static_cast<uint16_t>(extra.size()));
  head += name;
  head += extra;
  return file_.Write(head);
}

absl::Status ZipWriter::Write(std::string_view bytes) {
  now_.crc = Crc32(now_.crc, bytes);
  written_ += bytes.size();
  return file_.Write(bytes);
}

absl::Status ZipWriter::End() {
  if (written_ != now_.size_bytes) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} of {} bytes of {} were written", written_,
                      now_.size_bytes, now_.name);
  }
  std::string crc;
  Append(crc, now_.crc);
  MSITD_RETURN_IF_ERROR(file_.WriteAt(now_.offset + kCrcOffset, crc));
  members_.push_back(std::move(now_));
  return absl::OkStatus();
}

absl::Status ZipWriter::Drop() { return file_.Truncate(now_.offset); }

absl::Status ZipWriter::Add(std::string_view name, std::string_view bytes) {
  MSITD_RETURN_IF_ERROR(Begin(name, bytes.size()));
  MSITD_RETURN_IF_ERROR(Write(bytes));
  return End();
}

absl::Status ZipWriter::Finish() {
  const uint64_t begin = file_.size();
  for (const Member& member : members_) {
    std::string sizes;
    if (member.size_bytes >= kMax32) {
      Append(sizes, member.size_bytes, member.size_bytes);
    }
    if (member.offset >= kMax32) Append(sizes, member.offset);
    std::string extra;
    if (!sizes.empty()) {
      Append(extra, kZip64Field, static_cast<uint16_t>(sizes.size()));
      extra += sizes;
    }
    std::string entry;
    Append(entry, kCentralSignature, kVersion, kVersion, uint16_t{0},
           uint16_t{0}, kDate, member.crc, Clamp(member.size_bytes),
           Clamp(member.size_bytes), static_cast<uint16_t>(member.name.size()),
           static_cast<uint16_t>(extra.size()), uint16_t{0}, uint16_t{0},
           uint16_t{0}, uint32_t{0}, Clamp(member.offset));
    entry += member.name;
    entry += extra;
    MSITD_RETURN_IF_ERROR(file_.Write(entry));
  }
  const uint64_t end = file_.size();
  const uint64_t count = members_.size();
  std::string tail;
  if (count >= kMax16 || end >= kMax32) {
    Append(tail, kEnd64Signature, kEnd64Bytes, kVersion, kVersion, uint32_t{0},
           uint32_t{0}, count, count, end - begin, begin);
    Append(tail, kLocator64Signature, uint32_t{0}, end, uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(count < kMax16 ? count : kMax16);
  Append(tail, kEndSignature, uint16_t{0}, uint16_t{0}, count16, count16,
         Clamp(end - begin), Clamp(begin), uint16_t{0});
  return file_.Write(tail);
}

}  // namespace msitd::write
