// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "daemon/compare/job/comparison_jobs.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// Blocks callers until it has been opened. Thread-safe.
class Gate {
 public:
  void Open() {
    const MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    const MutexLock lock(mu_);
    while (!open_) changed_.Wait(mu_);
  }
  bool is_open() {
    const MutexLock lock(mu_);
    return open_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
};

// Waits until the comparison satisfies `condition`, and returns it.
template <typename Condition>
v1::Comparison AwaitThat(ComparisonJobs& jobs, uint64_t id,
                         const Condition& condition) {
  while (true) {
    const auto view = jobs.Get(id);
    EXPECT_TRUE(view.ok()) << view.status();
    if (condition(view->comparison)) return view->comparison;
    Gate changed;
    jobs.AwaitChange(id, view->version, [&changed] { changed.Open(); });
    changed.Await();
  }
}

inline v1::Comparison AwaitEnd(ComparisonJobs& jobs, uint64_t id) {
  return AwaitThat(jobs, id, [](const v1::Comparison& comparison) {
    return comparison.state() != v1::Comparison::PENDING &&
           comparison.state() != v1::Comparison::RUNNING;
  });
}

}  // namespace msitd::compare
