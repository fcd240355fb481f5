// SPDX-License-Identifier: Apache-2.0
// Files of other tools. A file that can be opened can be read to its end. For
// each tensor, it returns the declared number of bytes or an error.
#include <algorithm>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/tensor_file.h"
#include "protos/base/check.h"
#include "tests/fuzz/formats_seeds.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/client/foreign/formats/zip_bytes.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() { return FormatsSeeds(); }

}  // namespace msitd::fuzz

namespace msitd::formats {
namespace {

// Views that repeat elements can be long, so only the first bytes are read.
constexpr uint64_t kReadMax = uint64_t{1} << 20;

void Try(std::string bytes) {
  const auto file = OpenTensorBytes(
      std::make_shared<MemorySource>(std::move(bytes)), "", OpenOptions());
  if (!file.ok()) return;
  while (const ForeignTensor* tensor = (*file)->Next()) {
    uint64_t total = 0;
    std::vector<std::byte> piece(1 + kReadBytesMin * (1 + total % 7));
    for (;;) {
      const auto count = (*file)->Read(piece);
      // Damage to a member of a zip archive is sometimes detected only when the
      // member is read.
      const bool can_fail = (*file)->kind() == FileKind::kNpz ||
                            (*file)->kind() == FileKind::kTorch;
      MSITD_CHECK(count.ok() == tensor->problem.ok() ||
                  (can_fail && tensor->problem.ok()));
      if (!count.ok()) break;
      total += *count;
      if (*count == 0) {
        MSITD_CHECK(total == tensor->bytes);
        break;
      }
      if (total > kReadMax) break;
    }
  }
}

}  // namespace
}  // namespace msitd::formats

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  // Wraps a plain pickle into an archive, so that mutations do not have to
  // produce a valid archive.
  if (bytes.starts_with('\x80')) {
    bytes = msitd::formats::ZipOf(
        {{"x/data.pkl", bytes}, {"x/data/0", "0123456789ab"}});
  }
  msitd::formats::Try(std::move(bytes));
  return 0;
}
