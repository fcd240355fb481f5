// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/fair_shares.h"

#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::access {

struct FairShares::State {
  explicit State(Limit l) : limit(std::move(l)), share{limit.capacity} {}

  const Limit limit;
  const FairShare share;

  Mutex mu;
  uint64_t used ABSL_GUARDED_BY(mu) = 0;
  // Amount held by each caller that holds any, so there are at most `capacity`
  // entries.
  std::map<std::string, uint64_t, std::less<>> held ABSL_GUARDED_BY(mu);
};

FairShares::Grant::Grant(Grant&& other) noexcept
    : state_(std::move(other.state_)),
      name_(std::move(other.name_)),
      amount_(std::exchange(other.amount_, 0)) {}

FairShares::Grant& FairShares::Grant::operator=(Grant&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::move(other.state_);
  name_ = std::move(other.name_);
  amount_ = std::exchange(other.amount_, 0);
  return *this;
}

void FairShares::Grant::Release() {
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  const uint64_t amount = std::exchange(amount_, 0);
  if (state == nullptr || amount == 0) return;
  MutexLock lock(state->mu);
  const auto it = state->held.find(name_);
  MSITD_CHECK(it != state->held.end() && it->second >= amount);
  it->second -= amount;
  if (it->second == 0) state->held.erase(it);
  state->used -= amount;
}

FairShares::FairShares(Limit limit)
    : state_(std::make_shared<State>(std::move(limit))) {}

absl::StatusOr<FairShares::Grant> FairShares::Acquire(const Caller& caller,
                                                      uint64_t amount) {
  MutexLock lock(state_->mu);
  const auto it = state_->held.find(caller.name);
  const uint64_t held = it == state_->held.end() ? 0 : it->second;
  const bool is_admin = caller.role == Role::kAdmin;
  if (!state_->share.Admits(is_admin, held, state_->used, amount)) {
    const uint64_t limit = state_->share.CapacityFor(is_admin, held + amount);
    return WithReason(
        WithMetadata(
            MakeStatus(absl::StatusCode::kResourceExhausted,
                       "{} of {} {} are in use, {} by {}{}", state_->used,
                       state_->limit.capacity, state_->limit.what, held,
                       caller.name.empty() ? "this caller" : caller.name,
                       limit < state_->limit.capacity
                           ? "; the rest is kept for other callers"
                           : ""),
            "limit", std::to_string(limit)),
        state_->limit.reason);
  }
  if (amount == 0) return Grant();
  state_->held[caller.name] = held + amount;
  state_->used += amount;
  return Grant(state_, caller.name, amount);
}

uint64_t FairShares::used() const {
  MutexLock lock(state_->mu);
  return state_->used;
}

}  // namespace msitd::access
