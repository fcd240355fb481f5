// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "storage/env/env.h"

namespace msitd::testing {

// An Env on top of a real one that fails on demand, and that loses unsynced
// data when the power is cut. Thread-safe.
//
// The database of the index has its own files. After CountIndex its operations
// fail, too, but its files lose nothing.
class FaultEnv final : public storage::Env {
 public:
  explicit FaultEnv(storage::Env& base) : base_(base) {}

  // The fate of pages that were written but not synced.
  enum class PowerLoss {
    kLoseAll,    // The file ends where it was synced.
    kLoseSome,   // Each page stays or reads as zeros, by chance.
    kKeepSizes,  // All of them read as zeros.
  };

  // Makes the `number`th operation from now on, counted from 1, fail with
  // `status`, and with `forever` all later ones. A failing write has written
  // the first half of its bytes.
  void FailAt(uint64_t number, absl::Status status, bool forever);
  void StopFailing();

  // Blocks syncs of files between these two calls. AwaitHang returns once one
  // is blocked.
  void HangSyncs();
  void AwaitHang();
  void ReleaseSyncs();

  // Advances the wall clock and the boot clock.
  void AdvanceClock(int64_t ns) {
    clock_offset_ns_ += ns;
    boot_offset_ns_ += ns;
  }
  // Moves the wall clock by `ns`, forward or back.
  void SetClock(int64_t ns) { clock_offset_ns_ += ns; }
  // Turns the machine off for `off_ns`, and restarts it.
  void Reboot(int64_t off_ns) {
    clock_offset_ns_ += off_ns;
    boot_offset_ns_ = -base_.BootNs();
    ++boot_count_;
  }

  // From now on, the file system does not support holes.
  void RefuseHoles() { refuses_holes_ = true; }

  // From now on, operations of the index database are counted, too.
  void CountIndex() { counts_index_ = true; }

  // From now on, at most this many bytes are free, even if the disk reports
  // more.
  void LimitFreeBytes(uint64_t bytes) { free_bytes_max_ = bytes; }

  // Returns the number of operations since the last FailAt, or since the
  // beginning.
  uint64_t operation_count();

  // Removes unsynced data from the files themselves. The store that used the
  // Env must have been destroyed. Returns the number of lost pages.
  uint64_t CutPower(PowerLoss mode, uint32_t seed);

  absl::StatusOr<std::unique_ptr<storage::File>> Create(const std::string& path,
                                                        bool direct) override;
  absl::StatusOr<std::unique_ptr<storage::File>> OpenForRead(
      const std::string& path, bool direct) override;
  absl::StatusOr<std::unique_ptr<storage::File>> OpenForWrite(
      const std::string& path, bool direct) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<uint64_t> CapacityBytes(const std::string& path) override;
  absl::Status AdmitIndexOperation() override;
  int64_t NowNs() override;
  int64_t BootNs() override { return base_.BootNs() + boot_offset_ns_; }
  std::string BootId() override { return std::to_string(boot_count_); }

 private:
  class FaultFile;

  struct FileState {
    uint64_t synced_bytes = 0;
    uint64_t written_bytes = 0;
  };

  // Returns the result of the current operation.
  absl::Status Step();
  void HangIfToldTo();
  void OnWritten(const std::string& path, uint64_t end);
  void OnSynced(const std::string& path);
  void OnTruncated(const std::string& path, uint64_t bytes);

  storage::Env& base_;
  std::atomic<int64_t> clock_offset_ns_ = 0;
  std::atomic<int64_t> boot_offset_ns_ = 0;
  std::atomic<int> boot_count_ = 1;
  std::atomic<bool> refuses_holes_ = false;
  std::atomic<bool> counts_index_ = false;
  std::atomic<uint64_t> free_bytes_max_ = UINT64_MAX;

  Mutex mu_;
  std::map<std::string, FileState> files_ ABSL_GUARDED_BY(mu_);
  CondVar changed_;
  bool hangs_ ABSL_GUARDED_BY(mu_) = false;
  bool is_hanging_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t operation_count_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t fail_at_ ABSL_GUARDED_BY(mu_) = 0;  // 0: never.
  bool forever_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::testing
