// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include "protos/base/limits.h"

namespace msitd::libmsit {

std::optional<int32_t> CallCounter::Next(int64_t token, std::string_view name) {
  NextCalls& calls = CallsOf(token);
  auto known = names_.find(name);
  if (known != names_.end()) {
    if (const auto it = calls.find(&*known); it != calls.end()) {
      if (it->second > kCallMax) return std::nullopt;
      return it->second++;
    }
  }
  if (calls.size() >= names_max_) return std::nullopt;
  if (known == names_.end()) known = names_.emplace(name, 0).first;
  calls.emplace(&*known, 1);
  ++known->second;
  ++name_count_;
  while (name_count_ > names_max_ && tokens_.size() > 1) ForgetLowestToken();
  return 0;
}

CallCounter::NextCalls& CallCounter::CallsOf(int64_t token) {
  if (last_ != tokens_.end() && last_->first == token) return last_->second;
  last_ = tokens_.find(token);
  if (last_ != tokens_.end()) return last_->second;
  if (tokens_.size() >= tokens_max_) ForgetLowestToken();
  last_ = tokens_.try_emplace(token).first;
  return last_->second;
}

void CallCounter::ForgetLowestToken() {
  const auto lowest = tokens_.begin();
  name_count_ -= lowest->second.size();
  for (const auto& [name, next] : lowest->second) {
    if (--name->second == 0) names_.erase(names_.find(name->first));
  }
  if (last_ == lowest) last_ = tokens_.end();
  tokens_.erase(lowest);
}

}  // namespace msitd::libmsit
