// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include <new>

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
  const bool is_new = known == names_.end();
  if (is_new) known = names_.emplace(name, 0).first;
  try {
    calls.emplace(&*known, 1);
  } catch (const std::bad_alloc&) {
    if (is_new) names_.erase(known);
    throw;
  }
  ++known->second;
  ++name_count_;
  while (name_count_ > names_max_ && tokens_.size() > 1) ForgetOldestToken();
  return 0;
}

CallCounter::NextCalls& CallCounter::CallsOf(int64_t token) {
  if (last_ != tokens_.end() && last_->first == token)
    return last_->second.next;
  last_ = tokens_.find(token);
  if (last_ != tokens_.end()) {
    order_.splice(order_.end(), order_, last_->second.place);
    return last_->second.next;
  }
  if (tokens_.size() >= tokens_max_) ForgetOldestToken();
  // Memory may run out, and both must then be as before.
  Order added({token}, &memory_);
  last_ = tokens_.try_emplace(token, added.begin()).first;
  order_.splice(order_.end(), added);
  return last_->second.next;
}

void CallCounter::ForgetOldestToken() {
  const auto oldest = tokens_.find(order_.front());
  name_count_ -= oldest->second.next.size();
  for (const auto& [name, next] : oldest->second.next) {
    if (--name->second == 0) names_.erase(names_.find(name->first));
  }
  if (last_ == oldest) last_ = tokens_.end();
  tokens_.erase(oldest);
  order_.pop_front();
}

}  // namespace msitd::libmsit
