// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ingest/ingest_pipeline.h"
#include "protos/status/mutex.h"
#include "tests/support/producer.h"

namespace msitd::ingest {

// A transport that keeps the messages of the pipeline.
class RecordingPeer final : public StreamPeer {
 public:
  void Commit(uint64_t count, uint64_t conflict_count) override {
    MutexLock lock(mu_);
    commits_.push_back(count);
    conflict_count_ = conflict_count;
    changed_.NotifyAll();
  }
  void SetCapturePolicy(const std::string& policy) override {
    MutexLock lock(mu_);
    policies_.push_back(policy);
    changed_.NotifyAll();
  }
  void Resume() override {
    MutexLock lock(mu_);
    ++resumes_;
    changed_.NotifyAll();
  }
  void End(const absl::Status& status) override {
    MutexLock lock(mu_);
    ++ends_;
    end_ = status;
    changed_.NotifyAll();
  }

  // Returns once at least `count` chunks are acknowledged.
  void AwaitCommit(uint64_t count) {
    MutexLock lock(mu_);
    while (commits_.empty() || commits_.back() < count) changed_.Wait(mu_);
  }
  // Waits for `count` policies and returns the last of them.
  std::string AwaitPolicy(size_t count) {
    MutexLock lock(mu_);
    while (policies_.size() < count) changed_.Wait(mu_);
    return policies_.back();
  }
  void AwaitResume() {
    MutexLock lock(mu_);
    while (resumes_ == 0) changed_.Wait(mu_);
    --resumes_;
  }
  absl::Status AwaitEnd() {
    MutexLock lock(mu_);
    while (!end_.has_value()) changed_.Wait(mu_);
    return *end_;
  }

  std::vector<uint64_t> commits() {
    MutexLock lock(mu_);
    return commits_;
  }
  uint64_t conflict_count() {
    MutexLock lock(mu_);
    return conflict_count_;
  }
  int ends() {
    MutexLock lock(mu_);
    return ends_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<uint64_t> commits_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> policies_ ABSL_GUARDED_BY(mu_);
  uint64_t conflict_count_ ABSL_GUARDED_BY(mu_) = 0;
  int resumes_ ABSL_GUARDED_BY(mu_) = 0;
  int ends_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

// The memory of one chunk. Counts how many leases exist.
class CountedLease final : public Lease {
 public:
  CountedLease(AlignedBuffer memory, std::atomic<int>& count)
      : memory_(std::move(memory)), count_(count) {
    ++count_;
  }
  ~CountedLease() override { --count_; }

  std::span<const std::byte> bytes(size_t size) const {
    return memory_.span().first(size);
  }

 private:
  AlignedBuffer memory_;
  std::atomic<int>& count_;
};

}  // namespace msitd::ingest
