// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/node/tar_archive.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "protos/base/check.h"

namespace msitd::msitctl {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr size_t kNameBytesMax = 99;
constexpr uint64_t kSizeMax = uint64_t{1} << 33;

// The offsets of the fields of a header, as defined by POSIX.
constexpr size_t kModeAt = 100;
constexpr size_t kUidAt = 108;
constexpr size_t kGidAt = 116;
constexpr size_t kSizeAt = 124;
constexpr size_t kTimeAt = 136;
constexpr size_t kChecksumAt = 148;
constexpr size_t kTypeAt = 156;
constexpr size_t kMagicAt = 257;

using Block = std::array<char, kBlockBytes>;

void Put(Block& block, size_t at, std::string_view text) {
  std::memcpy(block.data() + at, text.data(), text.size());
}

Block Header(std::string_view path, uint64_t size, int64_t time_s) {
  Block block{};
  Put(block, 0, path);
  Put(block, kModeAt, "0000644");
  Put(block, kUidAt, "0000000");
  Put(block, kGidAt, "0000000");
  Put(block, kSizeAt, fmt::format("{:011o}", size));
  Put(block, kTimeAt, fmt::format("{:011o}", time_s));
  Put(block, kTypeAt, "0");
  Put(block, kMagicAt, std::string_view("ustar\00000", 8));
  // The checksum treats its own field as blanks.
  Put(block, kChecksumAt, "        ");
  uint32_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  Put(block, kChecksumAt, fmt::format("{:06o}", sum) + '\0');
  return block;
}

}  // namespace

void TarArchive::Add(std::string_view path, std::string_view content) {
  MSITD_CHECK(!path.empty() && path.size() <= kNameBytesMax);
  MSITD_CHECK(content.size() < kSizeMax);
  const Block header = Header(path, content.size(), time_s_);
  bytes_.append(header.data(), header.size());
  bytes_.append(content);
  bytes_.append((kBlockBytes - content.size() % kBlockBytes) % kBlockBytes,
                '\0');
}

std::string TarArchive::Finish() {
  bytes_.append(2 * kBlockBytes, '\0');
  return std::move(bytes_);
}

}  // namespace msitd::msitctl
