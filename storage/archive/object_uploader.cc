// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/object_uploader.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "protos/chunk/piecewise_hash.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::chrono::milliseconds kStopStep{100};
// `run archive --prune` skips a folder while one of its objects is young.
// Therefore an object is written at least this often, even if it already
// exists.
constexpr std::chrono::hours kPutInterval{1};
constexpr size_t kVerifyBytes = size_t{8} << 20;

// Seconds since the Unix epoch.
int64_t NowS() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::Status VerifyObject(ObjectStore& store, const std::string& key,
                          const ArchiveObject& object) {
  const size_t piece = std::min<uint64_t>(object.bytes, kVerifyBytes);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(piece);
  chunk::PiecewiseHash hash;
  for (uint64_t at = 0; at < object.bytes; at += piece) {
    const std::span<std::byte> out(
        memory.get(), std::min<uint64_t>(piece, object.bytes - at));
    MSITD_RETURN_IF_ERROR(store.Read(key, at, out));
    hash.Add({reinterpret_cast<const char*>(out.data()), out.size()});
  }
  if (hash.Get() == object.hash) return absl::OkStatus();
  return WithReason(
      MakeStatus(absl::StatusCode::kDataLoss,
                 "{}/{} does not hold the bytes that were written", store.url(),
                 key),
      ErrorReason::kFrameCorrupt);
}

ObjectUploader::ObjectUploader(ObjectStore& store) : store_(store) {
  for (size_t i = 0; i < kObjectsMax; ++i) {
    threads_.push_back(StartThread("archive put", [this] { Loop(); }));
  }
}

ObjectUploader::~ObjectUploader() {
  {
    const MutexLock lock(mu_);
    must_stop_ = true;
    tasks_.clear();
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ObjectUploader::Add(const std::string& folder,
                                 const ArchiveObject& object, std::string bytes,
                                 StopCheck stop) {
  {
    const MutexLock lock(mu_);
    while (status_.ok() && tasks_.size() + begun_count_ >= kObjectsMax) {
      changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kStopStep);
      MSITD_RETURN_IF_ERROR(stop());
    }
    if (!status_.ok()) return status_;
    tasks_.push_back({folder + "/" + object.name, object, std::move(bytes)});
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ObjectUploader::Finish(StopCheck stop) {
  const MutexLock lock(mu_);
  while (status_.ok() && tasks_.size() + begun_count_ > 0) {
    changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kStopStep);
    MSITD_RETURN_IF_ERROR(stop());
  }
  return status_;
}

void ObjectUploader::Loop() {
  while (true) {
    Task task;
    {
      const MutexLock lock(mu_);
      while (!must_stop_ && tasks_.empty()) changed_.Wait(mu_);
      if (must_stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++begun_count_;
    }
    const absl::Status status = Upload(task);
    {
      const MutexLock lock(mu_);
      --begun_count_;
      if (status_.ok()) status_ = status;
    }
    changed_.NotifyAll();
  }
}

bool ObjectUploader::MustRefresh(const ObjectStat& stat) const {
  const int64_t old_s = NowS() - std::chrono::seconds(kPutInterval).count();
  // An object without a time is never pruned.
  return stat.modify_time_s != 0 && stat.modify_time_s < old_s &&
         last_put_s_ < old_s;
}

absl::Status ObjectUploader::Upload(const Task& task) {
  const absl::StatusOr<ObjectStat> stat = store_.Stat(task.key);
  if (!stat.ok() && !absl::IsNotFound(stat.status())) return stat.status();
  const bool is_there = stat.ok() && stat->bytes == task.object.bytes &&
                        VerifyObject(store_, task.key, task.object).ok();
  if (!is_there || MustRefresh(*stat)) {
    last_put_s_ = NowS();
    MSITD_RETURN_IF_ERROR(
        store_.Put(task.key, std::as_bytes(std::span(task.bytes))));
    sent_bytes_ += task.object.bytes;
    MSITD_RETURN_IF_ERROR(VerifyObject(store_, task.key, task.object));
  }
  verified_bytes_ += task.object.bytes;
  return absl::OkStatus();
}

}  // namespace msitd::storage
