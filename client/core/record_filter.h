// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "client/core/op_rules_cache.h"
#include "protos/base/tensor_key.h"
#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Says how much of each record the capture policy asks for, and counts the
// records of which it asks nothing. Thread-safe. Recording threads take no
// lock, but for the few calls that follow a new policy.
//
// A thread that reads the policy in force is counted in its shard while it
// does. A new policy first puts an end to that: threads find none in force, and
// read the newest one under the lock. It comes in force when nobody is left who
// may read the one before, which is freed then.
class RecordFilter {
 public:
  RecordFilter() = default;
  RecordFilter(const RecordFilter&) = delete;
  RecordFilter& operator=(const RecordFilter&) = delete;

  // From now on `schedule` holds; null: everything is recorded in full.
  void Set(std::unique_ptr<const capture::Schedule> schedule);

  // From now on Take lets everything through, whatever is set, and MayRecord
  // says what it said before. What was counted before is in filtered_count when
  // this returns, after the few calls that have begun.
  void Stop();

  // Returns at which level a record is asked for. One that is off is counted.
  capture::Level Take(std::string_view device, int64_t token,
                      std::string_view op, Io io);

  // See capture::Schedule.
  bool MayRecord(int64_t token, std::string_view op, Io io);

  // Records that were off, of all threads.
  uint64_t filtered_count() const;

  // Asks for word of the next record that is off. Of those that filtered_count
  // does not have afterwards, the first one has TakeWatch return true, in one
  // of the threads that ask behind Take.
  void Watch() { is_watched_.store(true); }
  bool TakeWatch() { return is_watched_.load() && is_watched_.exchange(false); }

 private:
  struct Policy {
    explicit Policy(std::unique_ptr<const capture::Schedule> given)
        : schedule(std::move(given)), cache(*schedule) {}
    capture::Level LevelOf(std::string_view device, int64_t token,
                           std::string_view op, Io io);
    bool MayRecord(int64_t token, std::string_view op, Io io);

    const std::unique_ptr<const capture::Schedule> schedule;
    OpRulesCache cache;
  };

  // Of the threads that belong to it: how many read the policy now, and above
  // that, 2^48 of them at most, the records that were off.
  struct alignas(64) Shard {
    std::atomic<uint64_t> word{0};
  };
  static constexpr size_t kShardCount = 16;
  static constexpr int kReaderBits = 16;
  static constexpr uint64_t kReaderMask = (uint64_t{1} << kReaderBits) - 1;
  static constexpr uint64_t kOneFiltered = uint64_t{1} << kReaderBits;

  // One reading of the policy in force.
  class Reading;

  Shard& ShardOfThread();
  bool IsRead() const;
  // Takes the policy out of force; `policy` is the newest one now. Like the
  // next, takes mu_ as locked.
  void Replace(std::unique_ptr<Policy> policy);
  // Brings the newest policy in force, if nobody reads the one before.
  void Advance();

  // False: everything is let through. Relaxed, since who comes late finds no
  // policy in force, and then none at all.
  std::atomic<bool> is_on_{false};

  // Sequentially consistent throughout, like the words of the shards and
  // is_watched_. Set stores null, then loads all words; a reader adds itself to
  // its word, then loads this: one of the two sees the other.
  std::atomic<Policy*> in_force_{nullptr};

  // The same with the words: Watch stores it before filtered_count is asked, a
  // record that is off is counted before it is loaded.
  std::atomic<bool> is_watched_{false};

  std::array<Shard, kShardCount> shards_;

  std::mutex mu_;
  // Guarded by mu_, but for in_force_, which is the newest or null.
  std::unique_ptr<Policy> newest_;
  // The one before, while it may be read.
  std::unique_ptr<Policy> retired_;
  bool is_stopped_ = false;
};

}  // namespace msitd::client
