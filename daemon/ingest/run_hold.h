// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"

namespace msitd::ingest {

// The runs that a thread opens, seals, deletes or changes now. Thread-safe.
class HeldRuns {
 public:
  // Waits until no other thread holds the run.
  void Acquire(const std::string& run) ABSL_LOCKS_EXCLUDED(mu_);
  void Release(const std::string& run) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  CondVar free_;  // A run is no longer held.
  std::set<std::string, std::less<>> runs_ ABSL_GUARDED_BY(mu_);
};

// Holds a run, so that no stream can join it while it is sealed, for example.
// A thread that holds two runs must acquire the run with the shorter name
// first, which prevents deadlocks.
class RunHold {
 public:
  RunHold(HeldRuns& held, std::string_view run) : held_(held), run_(run) {
    held_.Acquire(run_);
  }
  ~RunHold() { held_.Release(run_); }
  RunHold(const RunHold&) = delete;
  RunHold& operator=(const RunHold&) = delete;

 private:
  HeldRuns& held_;
  const std::string run_;
};

}  // namespace msitd::ingest
