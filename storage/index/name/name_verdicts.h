// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msitd::storage {

// Remembers whether each name that a scan has tested matches, in two bits per
// number. Thread-compatible.
class NameVerdicts {
 public:
  // Results for names with larger numbers are not stored; limits the memory to
  // 8 MiB.
  static constexpr uint32_t kNamesMax = uint32_t{1} << 25;

  std::optional<bool> Find(uint32_t id) const {
    const size_t byte = id / kNamesPerByte;
    if (byte >= bits_.size()) return std::nullopt;
    const unsigned verdict = bits_[byte] >> Shift(id);
    if ((verdict & kJudged) == 0) return std::nullopt;
    return (verdict & kMatches) != 0;
  }

  // Must be called at most once for each id.
  void Put(uint32_t id, bool matches) {
    if (id >= kNamesMax) return;
    const size_t byte = id / kNamesPerByte;
    if (byte >= bits_.size()) bits_.resize(byte + 1);
    bits_[byte] |= (kJudged | (matches ? kMatches : 0)) << Shift(id);
  }

 private:
  static constexpr uint32_t kNamesPerByte = 4;
  static constexpr unsigned kJudged = 1;
  static constexpr unsigned kMatches = 2;

  static unsigned Shift(uint32_t id) { return 2 * (id % kNamesPerByte); }

  std::vector<uint8_t> bits_;
};

}  // namespace msitd::storage
