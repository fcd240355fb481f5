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
  // As long as compactions fail after one that found too little room.
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

// The files of RocksDB, so that it never meets a full disk: what finds no room
// is done once more with that of the ballast. Compaction, which can wait, gets
// none of it and leaves kCompactionRoomBytes to others. Where there is less it
// fails, with an error after which RocksDB goes on and tries again, and `pause`
// begins.
//
// Every operation is announced to `env`, and fails if that says so. All are
// borrowed; `ballast` may be null. Thread-safe.
inline constexpr uint64_t kCompactionRoomBytes = uint64_t{16} << 20;
std::shared_ptr<rocksdb::FileSystem> MakeIndexFileSystem(
    Env& env, Ballast* ballast, CompactionPause& pause);

// Tells those files which of them a compaction makes: every database that uses
// them has to have it among its listeners, and no subcompactions.
std::shared_ptr<rocksdb::EventListener> MakeCompactionListener();

}  // namespace msitd::storage
