// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/retention_loop.h"

#include "daemon/config/log.h"
#include "protos/status/status.h"

namespace msitd::ingest {

RetentionLoop::RetentionLoop(storage::ChunkStore& store,
                             const storage::RetentionPolicy& policy,
                             std::chrono::milliseconds interval)
    : store_(store), policy_(policy), interval_(interval) {
  thread_ = std::thread([this] { Loop(); });
}

RetentionLoop::~RetentionLoop() { Stop(); }

void RetentionLoop::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::string RetentionLoop::error() {
  MutexLock lock(mu_);
  return error_;
}

void RetentionLoop::Loop() {
  while (true) {
    Work();
    const auto due = std::chrono::steady_clock::now() + interval_;
    MutexLock lock(mu_);
    while (!stop_ && changed_.WaitUntil(mu_, due)) {
    }
    if (stop_) return;
  }
}

void RetentionLoop::Work() {
  uint64_t expired_bytes = 0;
  bool is_done = false;
  while (!is_done) {
    {
      MutexLock lock(mu_);
      if (stop_) break;
    }
    const absl::StatusOr<storage::RetentionStep> step = store_.Retain(policy_);
    SetError(std::string(Message(step.status())));
    if (!step.ok()) break;
    expired_bytes += step->expired_bytes;
    is_done = step->is_done;
  }
  if (expired_bytes > 0) {
    config::Log("retention")->info("gave up bytes={}", expired_bytes);
  }
}

void RetentionLoop::SetError(const std::string& error) {
  {
    MutexLock lock(mu_);
    if (error == error_) return;
    error_ = error;
  }
  const auto log = config::Log("retention");
  if (error.empty()) {
    log->info("room can be made again");
  } else {
    log->error("room cannot be made error='{}'", error);
  }
}

}  // namespace msitd::ingest
