// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/client.h"
#include "client/libmsit/core/token_reference.h"
#include "protos/base/limits.h"

// Conversion of tokens given as a number, as a reference, or as the current
// token.
namespace msitd::libmsit {

int64_t Client::FixTokenBase() {
  int64_t base = token_base_.load();
  if (base == kBaseUnknown && token_base_.compare_exchange_strong(base, 0)) {
    return 0;
  }
  return base;
}

int64_t Client::Counted(int64_t token) {
  if (token == MSIT_TOKEN_CURRENT) return token_.load();
  if (IsTokenReference(token)) return CountedOf(token);
  // Negative tokens are refused later.
  return token < 0 ? token : token - FixTokenBase();
}

int64_t Client::CountedToAsk(int64_t token) {
  const bool is_number =
      token != MSIT_TOKEN_CURRENT && !IsTokenReference(token);
  if (is_number && token_base_.load() == kBaseUnknown) return token;
  const int64_t counted = Counted(token);
  Begin(counted);
  return counted;
}

int64_t Client::TokenReference() const {
  const int64_t counted = token_.load();
  // A negative current token was set by the host, so its number is known.
  return has_late_base_ && counted >= 0 && counted <= kTokenMax
             ? MakeTokenReference(counted)
             : counted + TokenBase();
}

int64_t Client::TokenNumber(int64_t token) const {
  if (token == MSIT_TOKEN_CURRENT) return this->token();
  return IsTokenReference(token) ? CountedOf(token) + TokenBase() : token;
}

int64_t Client::NextToken() {
  const int64_t next = token_.fetch_add(1) + 1;
  return next + TokenBase();
}

Status Client::SetToken(int64_t token) {
  if (IsTokenReference(token)) {
    token_.store(CountedOf(token));
    return {};
  }
  if (token < 0 || token > kTokenMax) {
    return InvalidArgument("token " + std::to_string(token) + " is not in 0.." +
                           std::to_string(kTokenMax));
  }
  token_.store(token - FixTokenBase());
  return {};
}

void Client::Begin(int64_t token) {
  int64_t end = token_end_.load(std::memory_order_relaxed);
  while (token >= end && token <= kTokenMax) {
    if (!token_end_.compare_exchange_weak(end, token + 1)) continue;
    if (watches_tokens_.load() && watches_tokens_.exchange(false)) {
      const Lock lock(mu_);
      look_time_ = Clock::now();
      if (end == 0) look_interval_ = {};
      work_.notify_one();
    }
    return;
  }
}

}  // namespace msitd::libmsit
