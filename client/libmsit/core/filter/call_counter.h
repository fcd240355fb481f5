// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace msitd::libmsit {

// Numbers the calls of each op within each token. Thread-compatible.
class CallCounter {
 public:
  // Maximum number of names over all tokens. Beyond it the lowest token is
  // forgotten; its calls then start at 0 again.
  static constexpr size_t kNamesMax = size_t{1} << 18;

  explicit CallCounter(size_t names_max = kNamesMax) : names_max_(names_max) {}

  // Returns 0, 1, 2, ... for each `name` within `token`. Returns nullopt if
  // this token has more than `names_max` names, or this name more than kCallMax
  // calls.
  std::optional<int32_t> Next(int64_t token, std::string_view name);

 private:
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };
  using NextCalls =
      std::unordered_map<std::string, int32_t, NameHash, std::equal_to<>>;

  size_t names_max_;
  size_t name_count_ = 0;
  std::map<int64_t, NextCalls> tokens_;
};

}  // namespace msitd::libmsit
