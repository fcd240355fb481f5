// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "protos/base/error_reason.h"
#include "protos/base/fair_share.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// Divides a limit of the whole daemon among callers, as FairShare defines, and
// counts how much each caller holds. Use one object per limit. New limits on
// resources that a caller holds for some time should use this class, so that
// all such limits behave alike. README.md lists the limits that are divided
// differently.
//
//   FairShares followers({.what = "comparisons that follow their runs",
//                         .capacity = 64,
//                         .reason = ErrorReason::kComparisonsExhausted});
//   MSITD_ASSIGN_OR_RETURN(FairShares::Grant grant, followers.Acquire(caller));
//   job->grant = std::move(grant);  // Held until the job is destroyed.
//
// Callers are distinguished by name. Callers without a name, such as the daemon
// itself, count as one. Thread-safe.
class FairShares {
 private:
  struct State;

 public:
  struct Limit {
    std::string what;  // Plural noun for error messages.
    uint64_t capacity = 0;
    ErrorReason reason = ErrorReason::kRequestsExhausted;
  };

  // Part of the limit, held by one caller until the grant is destroyed. May
  // outlive the FairShares object that issued it.
  class Grant {
   public:
    Grant() = default;
    Grant(Grant&& other) noexcept;
    Grant& operator=(Grant&& other) noexcept;
    ~Grant() { Release(); }

    // Returns the amount immediately. A second call has no effect.
    void Release();
    uint64_t amount() const { return amount_; }

   private:
    friend class FairShares;
    Grant(std::shared_ptr<State> state, std::string name, uint64_t amount)
        : state_(std::move(state)), name_(std::move(name)), amount_(amount) {}

    std::shared_ptr<State> state_;
    std::string name_;
    uint64_t amount_ = 0;
  };

  explicit FairShares(Limit limit);

  // Grants `amount` to the caller.
  //
  // Errors: RESOURCE_EXHAUSTED with the reason of the limit. The message states
  // how much this caller and all callers hold. The `limit` in the metadata is
  // the total that all callers may hold for this caller to receive more.
  absl::StatusOr<Grant> Acquire(const Caller& caller, uint64_t amount = 1);

  // Returns the amount held by all callers together.
  uint64_t used() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace msitd::access
