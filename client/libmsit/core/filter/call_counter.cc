// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include "protos/base/limits.h"

namespace msitd::libmsit {

std::optional<int32_t> CallCounter::Next(int64_t token, std::string_view name) {
  NextCalls& calls = tokens_[token];
  if (const auto it = calls.find(name); it != calls.end()) {
    if (it->second > kCallMax) return std::nullopt;
    return it->second++;
  }
  if (calls.size() >= names_max_) return std::nullopt;
  calls.emplace(name, 1);
  ++name_count_;
  while (name_count_ > names_max_ && tokens_.size() > 1) {
    const auto lowest = tokens_.begin();
    name_count_ -= lowest->second.size();
    tokens_.erase(lowest);
  }
  return 0;
}

}  // namespace msitd::libmsit
