// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "protos/status/mutex.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Writes objects while the caller creates the next ones, and reads each one
// back. An object that already exists with the same bytes is not written again,
// with one exception: if no object was written for an hour, an old one is
// written again, so that the folder counts as recent and objects that a later
// manifest will name are not pruned. Thread-compatible.
class ObjectUploader {
 public:
  // Maximum number of objects that are being written or queued.
  static constexpr size_t kObjectsMax = 2;

  // `store` must outlive this object.
  explicit ObjectUploader(ObjectStore& store);
  // Drops queued objects, and waits for the others.
  ~ObjectUploader();
  ObjectUploader(const ObjectUploader&) = delete;
  ObjectUploader& operator=(const ObjectUploader&) = delete;

  // Queues `bytes` for the object `folder`/`object.name`. Waits while
  // kObjectsMax objects are queued, and calls `stop` regularly.
  //
  // Errors: those of earlier objects.
  absl::Status Add(const std::string& folder, const ArchiveObject& object,
                   std::string bytes, StopCheck stop);

  // Returns when all objects exist and were read back, or the first error:
  // DATA_LOSS for an object that was read back with other bytes.
  absl::Status Finish(StopCheck stop);

  uint64_t sent_bytes() const { return sent_bytes_.load(); }
  uint64_t verified_bytes() const { return verified_bytes_.load(); }

 private:
  struct Task {
    std::string key;
    ArchiveObject object;
    std::string bytes;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Upload(const Task& task);
  bool MustRefresh(const ObjectStat& stat) const;

  ObjectStore& store_;
  std::atomic<uint64_t> sent_bytes_ = 0;
  std::atomic<uint64_t> verified_bytes_ = 0;
  std::atomic<int64_t> last_put_s_ = 0;  // Since the Unix epoch.
  Mutex mu_;
  CondVar changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  size_t begun_count_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool must_stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

// Reads a whole object and compares it with its hash.
//
// Errors: DATA_LOSS; those of reading.
absl::Status VerifyObject(ObjectStore& store, const std::string& key,
                          const ArchiveObject& object);

}  // namespace msitd::storage
