// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "storage/env/ballast.h"
#include "storage/env/env.h"

namespace rocksdb {
class EventListener;
class FileSystem;
}  // namespace rocksdb

namespace msitd::storage {

// Records whether compactions wait for space on the disk. Thread-safe.
class CompactionPause {
 public:
  // How long compactions fail after one of them found too little space.
  static constexpr std::chrono::seconds kPause{60};

  void Begin() {
    until_ns_ = NowNs() + std::chrono::nanoseconds(kPause).count();
  }
  bool is_on() const { return NowNs() < until_ns_; }

 private:
  static int64_t NowNs() {
    return std::chrono::nanoseconds(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // Not used to publish other data.
  std::atomic<int64_t> until_ns_ = INT64_MIN;
};

// Creates the file system that RocksDB uses, which hides a full disk from
// RocksDB: an operation that finds no space is repeated with the space of the
// ballast. Compaction can wait, so it may not use the ballast and must leave
// kCompactionRoomBytes free. If less space is free, it fails with an error
// after which RocksDB continues and retries, and `pause` begins.
//
// Every operation is announced to `env`, and fails if `env` returns an error.
// Nothing is synced if `env` is not durable. All arguments are borrowed;
// `ballast` may be null. Thread-safe.
inline constexpr uint64_t kCompactionRoomBytes = uint64_t{16} << 20;
std::shared_ptr<rocksdb::FileSystem> MakeIndexFileSystem(
    Env& env, Ballast* ballast, CompactionPause& pause);

// Reports to the file system which files a compaction creates. Every database
// on that file system must have this listener, and must not use subcompactions.
std::shared_ptr<rocksdb::EventListener> MakeCompactionListener();

}  // namespace msitd::storage
