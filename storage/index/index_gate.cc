// SPDX-License-Identifier: Apache-2.0
#include "storage/index/index_gate.h"

#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::storage {

// Created and destroyed under a Use, so that no iterator outlives its database.
class IndexGate::HeldScan final : public TensorScan {
 public:
  HeldScan(IndexGate& gate, std::unique_ptr<TensorScan> scan, RunId run)
      : gate_(gate), run_(run), scan_(std::move(scan)) {}
  ~HeldScan() override {
    const Use use(gate_);
    {
      const MutexLock lock(gate_.mu_);
      gate_.scans_.erase(this);
    }
    scan_.reset();
  }

  absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) override {
    const Use use(gate_);
    if (scan_ == nullptr) {
      return absl::UnavailableError(
          "the index was opened anew during the scan: begin it again");
    }
    const absl::StatusOr<bool> found = scan_->Next(out, stop);
    if (!absl::IsDataLoss(found.status())) return found;
    // The names that the scan looks up may have been removed with the run.
    MSITD_RETURN_IF_ERROR(use->runs().BriefById(run_).status());
    return found;
  }

  std::string position() const override {
    const Use use(gate_);
    return scan_ == nullptr ? position_ : scan_->position();
  }

  uint64_t incomplete_count() const override {
    const Use use(gate_);
    return scan_ == nullptr ? incomplete_count_ : scan_->incomplete_count();
  }

  // Called while the gate is closed.
  void Drop() {
    if (scan_ == nullptr) return;
    position_ = scan_->position();
    incomplete_count_ = scan_->incomplete_count();
    scan_.reset();
  }

 private:
  IndexGate& gate_;
  const RunId run_;
  // Changes only while the gate is closed.
  std::unique_ptr<TensorScan> scan_;
  std::string position_;
  uint64_t incomplete_count_ = 0;
};

IndexGate::~IndexGate() {
  const MutexLock lock(mu_);
  MSITD_CHECK(scans_.empty());
}

void IndexGate::EnterClosed() {
  const MutexLock lock(mu_);
  const auto self = std::this_thread::get_id();
  if (owner_ == std::thread::id() || owner_ == self) return;
  // Close waits for all users, so this one must not be counted while it waits.
  state_.fetch_sub(1, std::memory_order_release);
  changed_.NotifyAll();
  while (owner_ != std::thread::id()) changed_.Wait(mu_);
  state_.fetch_add(1, std::memory_order_acquire);
}

void IndexGate::NotifyLast() {
  const MutexLock lock(mu_);
  changed_.NotifyAll();
}

std::unique_ptr<TensorScan> IndexGate::Hold(std::unique_ptr<TensorScan> scan,
                                            RunId run) {
  auto held = std::make_unique<HeldScan>(*this, std::move(scan), run);
  const MutexLock lock(mu_);
  scans_.insert(held.get());
  return held;
}

bool IndexGate::Close() {
  const auto due = std::chrono::steady_clock::now() + kDrainMax;
  const MutexLock lock(mu_);
  owner_ = std::this_thread::get_id();
  state_.fetch_or(kClosed, std::memory_order_acq_rel);
  while (use_count() > 0) {
    if (!changed_.WaitUntil(mu_, due)) return use_count() == 0;
  }
  // A thread that finds the gate closed is counted for a moment.
  return true;
}

void IndexGate::End() {
  std::set<HeldScan*> scans;
  {
    const MutexLock lock(mu_);
    // None of the scans can be destroyed before the gate is open again.
    scans = scans_;
  }
  for (HeldScan* scan : scans) scan->Drop();
  index_->db().End();
}

absl::Status IndexGate::Reopen(
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<ChunkIndex>>()> open,
    absl::FunctionRef<absl::Status()> finish) {
  absl::Status status =
      absl::UnavailableError("the index is in use and cannot be opened anew");
  if (Close()) {
    End();
    absl::StatusOr<std::unique_ptr<ChunkIndex>> next = open();
    status = next.status();
    if (next.ok()) {
      index_ = *std::move(next);
      status = finish();
      if (!status.ok()) index_->db().End();
    }
  }
  {
    const MutexLock lock(mu_);
    owner_ = std::thread::id();
    state_.fetch_and(~kClosed, std::memory_order_release);
  }
  changed_.NotifyAll();
  return status;
}

}  // namespace msitd::storage
