// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "protos/status/status.h"
#include "storage/archive/object_store.h"

namespace msitd::testing {

// An object store that fails as the test sets, and counts its operations.
// Thread-safe. The underlying store must outlive it.
class FaultObjects final : public storage::ObjectStore {
 public:
  explicit FaultObjects(storage::ObjectStore& store) : store_(store) {}

  // Number of objects that can still be written before writes are refused;
  // negative: unlimited.
  std::atomic<int> puts_left = -1;
  // Whether written objects are silently truncated.
  std::atomic<bool> truncates = false;
  // Whether PutIfAbsent replaces existing objects, like servers that ignore
  // `If-None-Match`.
  std::atomic<bool> ignores_absence = false;
  // Called with the key of an object before it is written, and before its size
  // and time are read. Set before the store is used.
  std::function<void(std::string_view key)> before_put = nullptr;
  std::function<void(std::string_view key)> before_stat = nullptr;
  // Number of read operations, and number of bytes written.
  std::atomic<int> reads = 0;
  std::atomic<uint64_t> put_bytes = 0;

  const std::string& url() const override { return store_.url(); }
  absl::StatusOr<storage::ObjectStat> Stat(std::string_view key) override {
    if (before_stat) before_stat(key);
    return store_.Stat(key);
  }
  absl::Status Read(std::string_view key, uint64_t offset,
                    std::span<std::byte> out) override {
    ++reads;
    return store_.Read(key, offset, out);
  }
  absl::StatusOr<std::string> Get(std::string_view key,
                                  uint64_t bytes_max) override {
    ++reads;
    return store_.Get(key, bytes_max);
  }
  absl::Status Put(std::string_view key,
                   std::span<const std::byte> bytes) override {
    MSITD_RETURN_IF_ERROR(Admit(bytes));
    if (before_put) before_put(key);
    return store_.Put(key, bytes);
  }
  absl::Status PutIfAbsent(std::string_view key,
                           std::span<const std::byte> bytes) override {
    MSITD_RETURN_IF_ERROR(Admit(bytes));
    if (before_put) before_put(key);
    if (ignores_absence) return store_.Put(key, bytes);
    return store_.PutIfAbsent(key, bytes);
  }
  absl::Status Delete(std::string_view key) override {
    return store_.Delete(key);
  }
  absl::StatusOr<storage::ObjectList> List(std::string_view folder) override {
    return store_.List(folder);
  }

 private:
  absl::Status Admit(std::span<const std::byte>& bytes) {
    if (puts_left == 0) {
      return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                   "the bucket is full"),
                        ErrorReason::kDiskFull);
    }
    if (puts_left > 0) --puts_left;
    if (truncates) bytes = bytes.first(bytes.size() / 2);
    put_bytes += bytes.size();
    return absl::OkStatus();
  }

  storage::ObjectStore& store_;
};

}  // namespace msitd::testing
