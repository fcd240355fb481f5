// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "storage/chunk_store.h"

namespace msitd::ingest {

// Makes room in a store: has it give up what its policy does not keep, step by
// step, on a thread of its own. Thread-safe.
class RetentionLoop {
 public:
  // How long it waits once nothing is left to do, or after an error.
  static constexpr std::chrono::milliseconds kInterval{1000};

  // Begins at once. `store` outlives it.
  RetentionLoop(storage::ChunkStore& store,
                const storage::RetentionPolicy& policy,
                std::chrono::milliseconds interval = kInterval);
  ~RetentionLoop();
  RetentionLoop(const RetentionLoop&) = delete;
  RetentionLoop& operator=(const RetentionLoop&) = delete;

  // Returns once the step under way is done; there is no other after it.
  void Stop();

  // The error of the last step; empty if it had none.
  std::string error();

 private:
  void Loop();
  // Does what there is to do now.
  void Work();
  void SetError(const std::string& error);

  storage::ChunkStore& store_;
  const storage::RetentionPolicy policy_;
  const std::chrono::milliseconds interval_;

  Mutex mu_;
  CondVar changed_;  // stop_ was set.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::string error_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace msitd::ingest
