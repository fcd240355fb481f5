// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "daemon/access/access_policy.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// The access policy in force, which a reload of the configuration replaces.
//
// Everything that identifies callers refers to this object, and looks up the
// role of a caller when a call begins instead of when its connection was
// opened. A role that was withdrawn is therefore gone for the next call, even
// on a connection that stays open. Thread-safe.
class LivePolicy {
 public:
  explicit LivePolicy(AccessPolicy policy = {})
      : policy_(std::make_shared<const AccessPolicy>(std::move(policy))) {}
  LivePolicy(const LivePolicy&) = delete;
  LivePolicy& operator=(const LivePolicy&) = delete;

  // Returns the policy in force, which stays valid while the pointer is held.
  std::shared_ptr<const AccessPolicy> Get() const {
    MutexLock lock(mu_);
    return policy_;
  }

  void Set(AccessPolicy policy) {
    auto next = std::make_shared<const AccessPolicy>(std::move(policy));
    MutexLock lock(mu_);
    // The previous policy is destroyed after the lock is released.
    policy_.swap(next);
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const AccessPolicy> policy_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::access
