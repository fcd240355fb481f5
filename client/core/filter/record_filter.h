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

#include "client/core/filter/op_rules_cache.h"
#include "protos/base/tensor_key.h"
#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Says how much of each record the capture policy asks for, and counts the
// records that it asks nothing of, which are *off*. Thread-safe. Recording
// threads take no lock, except for the few calls that follow a new policy.
//
// A policy is replaced without a lock for its readers. A thread that reads the
// policy in force is counted in its shard while it reads. Set takes that policy
// out of force; from then on calls read the newest one under the lock. Once
// nobody reads the old policy any more, it is freed and the newest comes into
// force.
class RecordFilter {
 public:
  RecordFilter() = default;
  RecordFilter(const RecordFilter&) = delete;
  RecordFilter& operator=(const RecordFilter&) = delete;

  // Makes `schedule` the policy from now on. Null: everything is recorded in
  // full.
  void Set(std::unique_ptr<const capture::Schedule> schedule);

  // From now on Take returns kFull for everything, whatever is set, and
  // MayRecord answers as before. Waits for the few calls that have begun, so
  // that filtered_count is final when this returns.
  void Stop();

  // Returns the level at which a record is asked for. Counts it if it is off.
  capture::Level Take(std::string_view device, int64_t token,
                      std::string_view op, Io io);

  // The same without counting, also after Stop.
  capture::Level LevelAt(std::string_view device, int64_t token,
                         std::string_view op, Io io);

  // See capture::Schedule.
  bool MayRecord(int64_t token, std::string_view op, Io io);

  // A number that changes before MayRecord answers otherwise for an op: there
  // is another policy, or this one asks for something else from a token on.
  uint64_t SelectionAt(int64_t token);

  // Number of records that were off, over all threads.
  uint64_t filtered_count() const;

  // Asks for one notice that filtered_count has grown. The caller calls Watch,
  // then reads filtered_count. Recording threads call TakeWatch after Take has
  // returned kOff. If a record is off that the caller's count lacks, TakeWatch
  // returns true in one of those threads.
  void Watch() { is_watched_.store(true); }
  bool TakeWatch() { return is_watched_.load() && is_watched_.exchange(false); }

 private:
  struct Policy {
    Policy(std::unique_ptr<const capture::Schedule> given, uint32_t number)
        : schedule(std::move(given)), number(number), cache(*schedule) {}
    capture::Level LevelOf(std::string_view device, int64_t token,
                           std::string_view op, Io io);
    bool MayRecord(int64_t token, std::string_view op, Io io);
    uint64_t SelectionAt(int64_t token) const {
      return uint64_t{number} << 32 | schedule->SpanOf(token);
    }

    const std::unique_ptr<const capture::Schedule> schedule;
    const uint32_t number;
    OpRulesCache cache;
  };

  // A word for the threads that hash to this shard. Its low kReaderBits count
  // the threads that read the policy now, the 48 bits above them the records
  // that were off.
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
  // Takes the policy out of force and makes `policy` the newest. Like Advance,
  // called with mu_ locked.
  void Replace(std::unique_ptr<Policy> policy);
  // Puts the newest policy in force if nobody reads the old one.
  void Advance();

  // False: everything is recorded. Relaxed: a thread that sees a stale true
  // finds no policy in force, and no newest one either.
  std::atomic<bool> is_on_{false};

  // Sequentially consistent, like the words of the shards and is_watched_. Set
  // stores null here, then loads all words. A reader adds itself to its word,
  // then loads this. So at least one of them sees the other.
  std::atomic<Policy*> in_force_{nullptr};

  // Paired with the words in the same way: Watch stores this, then
  // filtered_count loads the words; a record that is off is counted in its
  // word, then TakeWatch loads this.
  std::atomic<bool> is_watched_{false};

  std::array<Shard, kShardCount> shards_;

  std::mutex mu_;
  // Guarded by mu_. in_force_ is this policy or null.
  std::unique_ptr<Policy> newest_;
  // How many there were.
  uint32_t policy_count_ = 0;
  // The old policy, while it may still be read.
  std::unique_ptr<Policy> retired_;
  bool is_stopped_ = false;
};

}  // namespace msitd::client
