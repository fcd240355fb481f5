// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_env.h"

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::testing {

using storage::File;

class FaultEnv::FaultFile final : public File {
 public:
  FaultFile(FaultEnv& env, std::string path, std::unique_ptr<File> base)
      : env_(env), path_(std::move(path)), base_(std::move(base)) {}

  absl::Status Write(
      uint64_t offset,
      std::span<const std::span<const std::byte>> pieces) override {
    uint64_t bytes = 0;
    for (const auto piece : pieces) bytes += piece.size();
    const absl::Status failure = env_.Step();
    if (failure.ok()) {
      MSITD_RETURN_IF_ERROR(base_->Write(offset, pieces));
      env_.OnWritten(path_, offset + bytes);
      return absl::OkStatus();
    }
    uint64_t left = bytes / 2 / kChunkAlignment * kChunkAlignment;
    env_.OnWritten(path_, offset + left);
    for (const auto piece : pieces) {
      const std::array<std::span<const std::byte>, 1> part = {
          piece.first(std::min<uint64_t>(piece.size(), left))};
      MSITD_RETURN_IF_ERROR(base_->Write(offset, part));
      offset += part[0].size();
      left -= part[0].size();
    }
    return failure;
  }

  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                std::span<std::byte> out) override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    return base_->Read(offset, out);
  }

  absl::Status Sync() override {
    env_.HangIfToldTo();
    MSITD_RETURN_IF_ERROR(env_.Step());
    MSITD_RETURN_IF_ERROR(base_->Sync());
    env_.OnSynced(path_);
    return absl::OkStatus();
  }

  absl::Status Preallocate(uint64_t bytes) override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    return base_->Preallocate(bytes);
  }

  absl::Status Truncate(uint64_t bytes) override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    MSITD_RETURN_IF_ERROR(base_->Truncate(bytes));
    env_.OnTruncated(path_, bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    return base_->Size();
  }

  absl::Status PunchHole(uint64_t offset, uint64_t bytes) override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    if (env_.refuses_holes_) return absl::UnimplementedError("no holes");
    return base_->PunchHole(offset, bytes);
  }

  absl::StatusOr<uint64_t> AllocatedBytes() override {
    MSITD_RETURN_IF_ERROR(env_.Step());
    return base_->AllocatedBytes();
  }

 private:
  FaultEnv& env_;
  const std::string path_;
  const std::unique_ptr<File> base_;
};

void FaultEnv::FailAt(uint64_t number, absl::Status status, bool forever) {
  const MutexLock lock(mu_);
  operation_count_ = 0;
  fail_at_ = number;
  failure_ = std::move(status);
  forever_ = forever;
}

void FaultEnv::StopFailing() {
  const MutexLock lock(mu_);
  fail_at_ = 0;
}

void FaultEnv::HangSyncs() {
  const MutexLock lock(mu_);
  hangs_ = true;
  is_hanging_ = false;
}

void FaultEnv::AwaitHang() {
  const MutexLock lock(mu_);
  while (!is_hanging_) changed_.Wait(mu_);
}

void FaultEnv::ReleaseSyncs() {
  const MutexLock lock(mu_);
  hangs_ = false;
  changed_.NotifyAll();
}

void FaultEnv::HangIfToldTo() {
  const MutexLock lock(mu_);
  is_hanging_ |= hangs_;
  changed_.NotifyAll();
  while (hangs_) changed_.Wait(mu_);
}

uint64_t FaultEnv::operation_count() {
  const MutexLock lock(mu_);
  return operation_count_;
}

absl::Status FaultEnv::Step() {
  const MutexLock lock(mu_);
  ++operation_count_;
  const bool fails =
      fail_at_ != 0 && (operation_count_ == fail_at_ ||
                        (forever_ && operation_count_ > fail_at_));
  return fails ? failure_ : absl::OkStatus();
}

void FaultEnv::OnWritten(const std::string& path, uint64_t end) {
  const MutexLock lock(mu_);
  FileState& file = files_[path];
  file.written_bytes = std::max(file.written_bytes, end);
}

void FaultEnv::OnSynced(const std::string& path) {
  const MutexLock lock(mu_);
  FileState& file = files_[path];
  file.synced_bytes = file.written_bytes;
}

void FaultEnv::OnTruncated(const std::string& path, uint64_t bytes) {
  const MutexLock lock(mu_);
  const auto it = files_.find(path);
  if (it == files_.end()) return;
  it->second.written_bytes = std::min(it->second.written_bytes, bytes);
  it->second.synced_bytes = std::min(it->second.synced_bytes, bytes);
}

uint64_t FaultEnv::CutPower(PowerLoss mode, uint32_t seed) {
  const MutexLock lock(mu_);
  std::minstd_rand random(seed);
  const AlignedBuffer zeros = [] {
    AlignedBuffer page(kChunkAlignment);
    std::fill_n(page.data(), page.size(), std::byte{0});
    return page;
  }();
  const std::array<std::span<const std::byte>, 1> zero_page = {zeros.span()};
  uint64_t lost = 0;
  for (const auto& [path, state] : files_) {
    if (state.written_bytes <= state.synced_bytes) continue;
    auto file = base_.OpenForWrite(path, /*direct=*/false);
    MSITD_CHECK(file.ok());
    if (mode == PowerLoss::kLoseAll) {
      lost += (state.written_bytes - state.synced_bytes) / kChunkAlignment;
      MSITD_CHECK((*file)->Truncate(state.synced_bytes).ok());
      continue;
    }
    for (uint64_t at = state.synced_bytes; at < state.written_bytes;
         at += kChunkAlignment) {
      if (mode == PowerLoss::kLoseSome && (random() >> 8) % 2 == 0) continue;
      ++lost;
      MSITD_CHECK((*file)->Write(at, zero_page).ok());
    }
  }
  files_.clear();
  return lost;
}

absl::StatusOr<std::unique_ptr<File>> FaultEnv::Create(const std::string& path,
                                                       bool direct) {
  MSITD_RETURN_IF_ERROR(Step());
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         base_.Create(path, direct));
  return std::make_unique<FaultFile>(*this, path, std::move(file));
}

absl::StatusOr<std::unique_ptr<File>> FaultEnv::OpenForRead(
    const std::string& path, bool direct) {
  MSITD_RETURN_IF_ERROR(Step());
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         base_.OpenForRead(path, direct));
  return std::make_unique<FaultFile>(*this, path, std::move(file));
}

absl::StatusOr<std::unique_ptr<File>> FaultEnv::OpenForWrite(
    const std::string& path, bool direct) {
  MSITD_RETURN_IF_ERROR(Step());
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         base_.OpenForWrite(path, direct));
  return std::make_unique<FaultFile>(*this, path, std::move(file));
}

absl::Status FaultEnv::CreateDirectory(const std::string& path) {
  MSITD_RETURN_IF_ERROR(Step());
  return base_.CreateDirectory(path);
}

absl::Status FaultEnv::SyncDirectory(const std::string& path) {
  MSITD_RETURN_IF_ERROR(Step());
  return base_.SyncDirectory(path);
}

absl::StatusOr<std::vector<std::string>> FaultEnv::List(
    const std::string& directory) {
  MSITD_RETURN_IF_ERROR(Step());
  return base_.List(directory);
}

absl::Status FaultEnv::Remove(const std::string& path) {
  MSITD_RETURN_IF_ERROR(Step());
  MSITD_RETURN_IF_ERROR(base_.Remove(path));
  const MutexLock lock(mu_);
  files_.erase(path);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FaultEnv::FreeBytes(const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t free, base_.FreeBytes(path));
  return std::min(free, free_bytes_max_.load());
}

absl::StatusOr<uint64_t> FaultEnv::CapacityBytes(const std::string& path) {
  return base_.CapacityBytes(path);
}

absl::Status FaultEnv::AdmitIndexOperation() {
  return counts_index_ ? Step() : absl::OkStatus();
}

int64_t FaultEnv::NowNs() { return base_.NowNs() + clock_offset_ns_; }

}  // namespace msitd::testing
