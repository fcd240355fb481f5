// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/libmsit/core/filter/op_rules_cache.h"
#include "protos/base/tensor_key.h"
#include "protos/capture/capture_policy.h"

namespace msitd::libmsit {

// Returns how much of each record the capture policy requests, and counts
// records that are *off*, that is, not requested at all. Thread-safe. Recording
// threads acquire no lock, except in the few calls that follow a new policy.
//
// A policy is replaced without a lock for its readers. A thread that reads the
// policy in force is counted in its shard while it reads. Set takes that policy
// out of force; from then on calls read the newest policy with the lock held.
// When no thread reads the old policy any more, it is freed and the newest one
// is put into force. If the rules of a policy name requests, each token that
// processes one of them replaces the policy in the same way.
class RecordFilter {
 public:
  RecordFilter() = default;
  RecordFilter(const RecordFilter&) = delete;
  RecordFilter& operator=(const RecordFilter&) = delete;

  // Replaces the policy with `schedule`. Null: everything is recorded in full.
  void Set(std::unique_ptr<const capture::Schedule> schedule);

  // States that a request is processed at a token. Rules that name it apply to
  // this token from now on, also those of later policies. Only requests of the
  // highest tokens are known: of at most kRequestTokensMax, with at most
  // kRequestsMax requests together, except for a single token with more.
  void AddRequest(int64_t token, std::string_view id);
  static constexpr size_t kRequestTokensMax = 64;
  static constexpr size_t kRequestsMax = 8192;

  // Makes Take return kFull for everything from now on, under any policy, while
  // MayRecord is unchanged. Waits for calls in progress, so that
  // filtered_count is final when Stop returns.
  void Stop();

  // Returns the level at which a record is requested. Counts the record if it
  // is off.
  capture::Level Take(std::string_view device, int64_t token,
                      std::string_view op, Io io);

  // Like Take, but does not count, and is not affected by Stop.
  capture::Level LevelAt(std::string_view device, int64_t token,
                         std::string_view op, Io io);

  // See capture::Schedule.
  bool MayRecord(int64_t token, std::string_view op, Io io);

  // Returns a number that changes before the results of MayRecord change for
  // any op: when there is another policy, or when this one requests something
  // else at a token.
  uint64_t SelectionAt(int64_t token);

  // Number of records that were off, over all threads.
  uint64_t filtered_count() const;

  // Requests one notification that filtered_count has increased. The caller
  // calls Watch, then reads filtered_count. Recording threads call TakeWatch
  // after Take has returned kOff. If a record is off that is not included in
  // the caller's count, TakeWatch returns true in one of these threads.
  void Watch() { is_watched_.store(true); }
  bool TakeWatch() { return is_watched_.load() && is_watched_.exchange(false); }

 private:
  // A schedule, and the rules of each op that was met.
  struct Rules {
    explicit Rules(std::unique_ptr<const capture::Schedule> given)
        : schedule(std::move(given)), cache(*schedule) {}

    const std::unique_ptr<const capture::Schedule> schedule;
    OpRulesCache cache;
  };
  // The rules that apply to a token because of its requests.
  struct Requested {
    int64_t token = 0;
    uint32_t number = 0;  // As Policy::number.
    capture::RuleBits rules = {};
  };
  struct Policy {
    capture::Level LevelOf(std::string_view device, int64_t token,
                           std::string_view op, Io io) const;
    bool MayRecord(int64_t token, std::string_view op, Io io) const;
    uint64_t SelectionAt(int64_t token) const;
    const Requested& RequestedAt(int64_t token) const;

    std::shared_ptr<Rules> rules;
    uint32_t number = 0;
    // Ascending by token.
    std::vector<Requested> requested = {};
  };

  // The state of the threads that hash to this shard. The low kReaderBits count
  // the threads that are reading the policy, and the 48 bits above them count
  // the records that were off.
  struct alignas(64) Shard {
    std::atomic<uint64_t> word{0};
  };
  static constexpr size_t kShardCount = 16;
  static constexpr int kReaderBits = 16;
  static constexpr uint64_t kReaderMask = (uint64_t{1} << kReaderBits) - 1;
  static constexpr uint64_t kOneFiltered = uint64_t{1} << kReaderBits;

  // Represents one read of the policy in force.
  class Reading;

  Shard& ShardOfThread();
  bool IsRead() const;
  // Returns false if the request is known. Like RequestedOf, must be called
  // with mu_ locked.
  bool KeepRequest(int64_t token, std::string_view id);
  // Returns the rules of a schedule that apply to each known token.
  std::vector<Requested> RequestedOf(const capture::Schedule& schedule);
  // Takes the policy out of force and makes `policy` the newest. Like Advance,
  // must be called with mu_ locked.
  void Replace(std::unique_ptr<Policy> policy);
  // Puts the newest policy in force if no thread reads the old one.
  void Advance();

  // False: everything is recorded. Relaxed, because a thread that reads an
  // outdated true finds no policy in force, and no newest one either.
  std::atomic<bool> is_on_{false};

  // Sequentially consistent, like the words of the shards and is_watched_. Set
  // stores null here, then loads all words. A reader adds itself to its word,
  // then loads this. At least one of them therefore loads the other's value.
  std::atomic<Policy*> in_force_{nullptr};

  // Paired with the words in the same way: Watch stores this, then
  // filtered_count loads the words. A record that is off is counted in its
  // word, then TakeWatch loads this.
  std::atomic<bool> is_watched_{false};

  std::array<Shard, kShardCount> shards_;

  std::mutex mu_;
  // Guarded by mu_. in_force_ is this policy or null.
  std::unique_ptr<Policy> newest_;
  // Number of policies, and of changes of the requests of a token, so far.
  uint32_t policy_count_ = 0;
  // The old policy, while it may still be read.
  std::unique_ptr<Policy> retired_;
  // The ids of the requests by token, and their number.
  std::map<int64_t, std::set<std::string, std::less<>>> requests_;
  size_t request_count_ = 0;
  bool is_stopped_ = false;
};

}  // namespace msitd::libmsit
