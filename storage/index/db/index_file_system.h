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

// Tells whether compactions wait for room on the disk. Thread-safe.
class CompactionPause {
 public:
  // How long compactions fail after one found too little room.
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

  // Stands alone.
  std::atomic<int64_t> until_ns_ = INT64_MIN;
};

// Makes the file system that RocksDB uses, on which it never meets a full disk:
// an operation that finds no room is repeated with the room of the ballast.
// Compaction can wait: it gets no ballast and leaves kCompactionRoomBytes free.
// Where less is free it fails with an error after which RocksDB goes on and
// tries again, and `pause` begins.
//
// Every operation is announced to `env`, and fails if `env` returns an error.
// Nothing is synced if `env` is not durable.
// All arguments are borrowed; `ballast` may be null. Thread-safe.
inline constexpr uint64_t kCompactionRoomBytes = uint64_t{16} << 20;
std::shared_ptr<rocksdb::FileSystem> MakeIndexFileSystem(
    Env& env, Ballast* ballast, CompactionPause& pause);

// Tells the file system which files a compaction makes. Every database on that
// file system must have this listener, and no subcompactions.
std::shared_ptr<rocksdb::EventListener> MakeCompactionListener();

}  // namespace msitd::storage
