// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/stream_tokens.h"

#include <string>

#include "client/libmsit/core/token_reference.h"
#include "client/libmsit/include/msit/msit.h"
#include "protos/base/limits.h"

namespace msitd::libmsit {

int64_t StreamTokens::FixBase() {
  int64_t base = base_.load();
  if (base == kBaseUnknown && base_.compare_exchange_strong(base, 0)) return 0;
  return base;
}

bool StreamTokens::SetBase(int64_t base) {
  int64_t unknown = kBaseUnknown;
  return base_.compare_exchange_strong(unknown, base);
}

int64_t StreamTokens::Counted(int64_t token) {
  if (token == MSIT_TOKEN_CURRENT) return current_.load();
  if (IsTokenReference(token)) return CountedOf(token);
  // Negative tokens are refused later.
  return token < 0 ? token : token - FixBase();
}

std::optional<int64_t> StreamTokens::CountedIfKnown(int64_t token) {
  const bool is_number =
      token != MSIT_TOKEN_CURRENT && !IsTokenReference(token);
  if (is_number && base_.load() == kBaseUnknown) return std::nullopt;
  return Counted(token);
}

int64_t StreamTokens::Reference() const {
  const int64_t counted = current_.load();
  // A negative current token was set by the host, so its number is known.
  return has_late_base_ && counted >= 0 && counted <= kTokenMax
             ? MakeTokenReference(counted)
             : counted + base();
}

int64_t StreamTokens::NumberOf(int64_t token) const {
  if (token == MSIT_TOKEN_CURRENT) return current();
  return IsTokenReference(token) ? CountedOf(token) + base() : token;
}

Status StreamTokens::Set(int64_t token) {
  if (IsTokenReference(token)) {
    current_.store(CountedOf(token));
    return {};
  }
  if (token < 0 || token > kTokenMax) {
    return InvalidArgument("token " + std::to_string(token) + " is not in 0.." +
                           std::to_string(kTokenMax));
  }
  current_.store(token - FixBase());
  return {};
}

std::optional<StreamTokens::Awaited> StreamTokens::Begin(int64_t token) {
  int64_t end = end_.load(std::memory_order_relaxed);
  while (token >= end && token <= kTokenMax) {
    if (!end_.compare_exchange_weak(end, token + 1)) continue;
    if (!is_awaited_.load() || !is_awaited_.exchange(false)) break;
    return Awaited{.is_first = end == 0};
  }
  return std::nullopt;
}

// Requests the report first and then checks.
bool StreamTokens::Await(int64_t known_end) {
  is_awaited_.store(true);
  if (end() <= known_end) return true;
  is_awaited_.store(false);
  return false;
}

}  // namespace msitd::libmsit
