// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/recording_time.h"

namespace msitd::libmsit {

// A daemon and its transport in this process. Keeps copies of the chunks that
// arrive. The test controls acknowledgements and breaks connections.
// Thread-safe. The listener is called on a thread of this object.
class FakeDaemon {
 public:
  using Bytes = std::vector<std::byte>;

  // If `acknowledges` is true, chunks are acknowledged when they arrive.
  explicit FakeDaemon(bool acknowledges) : acknowledges_(acknowledges) {}
  ~FakeDaemon() {
    {
      const std::lock_guard lock(mu_);
      stops_ = true;
      changed_.notify_all();
    }
    events_thread_.join();
    for (const std::span<std::byte> mapping : kept_memory_) {
      ::munmap(mapping.data(), mapping.size());
    }
  }

  std::unique_ptr<Transport, TransportDestroyer> MakeTransport() {
    return std::unique_ptr<Transport, TransportDestroyer>(
        new FakeTransport(*this));
  }

  // Acknowledges the first `count` chunks of the stream.
  void Commit(uint64_t count) {
    const std::lock_guard lock(mu_);
    CommitLocked(count);
  }

  // Reports the first `count` chunks as committed, even if they have not
  // arrived.
  void ClaimCommitted(uint64_t count) {
    const std::lock_guard lock(mu_);
    Post([count](TransportListener& l) { l.OnCommitted(count); });
  }

  // Sets the chunk version that the daemon accepts, for later connections; 0:
  // none.
  void SetChunkVersion(uint32_t version) {
    const std::lock_guard lock(mu_);
    chunk_version_ = version;
  }

  // Sends a capture policy now, and at each later opening.
  void SetPolicy(const std::string& policy) {
    const std::lock_guard lock(mu_);
    policy_ = policy;
    if (is_connected_ && !policy.empty()) {
      Post([policy](TransportListener& l) { l.OnCapturePolicy(policy); });
    }
  }

  // Acknowledges all chunks that have arrived or will arrive.
  void CommitAll() {
    const std::lock_guard lock(mu_);
    acknowledges_ = true;
    CommitLocked(chunks_.size());
  }

  void StopAcknowledging() {
    const std::lock_guard lock(mu_);
    acknowledges_ = false;
  }

  // Ends the connection. Chunks that are not committed are discarded.
  void Break(StreamEnd end, std::string message) {
    const std::lock_guard lock(mu_);
    chunks_.resize(committed_count_);
    is_connected_ = false;
    Post([end, message](TransportListener& l) { l.OnEnd(end, message); });
  }

  // Discards everything, like a daemon with a new store.
  void Wipe() {
    const std::lock_guard lock(mu_);
    chunks_.clear();
    committed_count_ = 0;
    coverage_ = {};
  }

  // Rejects, or ignores, later openings.
  void RefuseOpening(StreamEnd end, std::string message) {
    const std::lock_guard lock(mu_);
    opening_ = [end, message](TransportListener& l) { l.OnEnd(end, message); };
  }
  void IgnoreOpening() {
    const std::lock_guard lock(mu_);
    opening_ = [](TransportListener&) {};
  }
  void AcceptOpening() {
    const std::lock_guard lock(mu_);
    opening_ = nullptr;
  }

  // Rejects the next chunk that arrives.
  void RefuseNextChunk() {
    const std::lock_guard lock(mu_);
    refuses_next_ = true;
  }

  // Makes the daemon ignore the end of streams.
  void IgnoreFinish() {
    const std::lock_guard lock(mu_);
    ignores_finish_ = true;
  }

  // Delivers an acknowledgement during the next Stop, as if it was in transit.
  void CommitDuringStop(uint64_t count) {
    const std::lock_guard lock(mu_);
    last_event_ = [count](TransportListener& l) { l.OnCommitted(count); };
  }

  // Makes Stop return false from now on, because chunks are still borrowed.
  void KeepChunks() {
    const std::lock_guard lock(mu_);
    keeps_chunks_ = true;
  }

  // Returns the mappings that the client passed to KeepMemory. The destructor
  // unmaps them.
  std::vector<std::span<std::byte>> kept_memory() const {
    const std::lock_guard lock(mu_);
    return kept_memory_;
  }

  // Waits until `count` chunks have arrived. Returns false after a long
  // timeout.
  bool WaitForChunks(size_t count) {
    return WaitFor([&] { return chunks_.size() >= count; });
  }
  bool WaitForOpenings(size_t count) {
    return WaitFor([&] { return opening_count_ >= count; });
  }

  std::vector<Bytes> chunks() const {
    const std::lock_guard lock(mu_);
    return chunks_;
  }
  // Returns the number of chunks that have ever arrived, including repeated
  // ones.
  size_t arrival_count() const {
    const std::lock_guard lock(mu_);
    return arrival_count_;
  }
  // Returns the last coverage that the client reported, without times, and the
  // number of reports.
  StreamCoverage coverage() const {
    const std::lock_guard lock(mu_);
    return coverage_;
  }
  // Returns the last times that the client reported.
  RecordingTime::Times times() const {
    const std::lock_guard lock(mu_);
    return times_;
  }
  size_t report_count() const {
    const std::lock_guard lock(mu_);
    return report_count_;
  }
  bool WaitForTokenEnd(int64_t token_end) {
    return WaitFor([&] { return token_end_ == token_end; });
  }
  bool WaitForReports(size_t count) {
    return WaitFor([&] { return report_count_ >= count; });
  }
  bool WaitForCoverage(const StreamCoverage& coverage) {
    return WaitFor([&] { return coverage_ == coverage; });
  }
  bool was_finished() const {
    const std::lock_guard lock(mu_);
    return was_finished_;
  }
  uint64_t stream_id() const {
    const std::lock_guard lock(mu_);
    return stream_id_;
  }

  // Assigns this name to the run at later openings, like IfExists::kNew.
  void RenameRun(const std::string& run) {
    const std::lock_guard lock(mu_);
    new_run_ = run;
  }
  // Sets the token at which an appending client begins, for later openings.
  void SetFirstToken(uint64_t token) {
    const std::lock_guard lock(mu_);
    first_token_ = token;
  }
  // Reports to the client how many records were repeated with different bytes.
  void TellConflicts(uint64_t count) {
    const std::lock_guard lock(mu_);
    Post([count](TransportListener& l) { l.OnConflicts(count); });
  }
  // The content of one opening.
  struct Opening {
    std::string run;
    IfExists if_exists;
    std::string job;
  };
  std::vector<Opening> openings() const {
    const std::lock_guard lock(mu_);
    return openings_;
  }

 private:
  using Event = std::function<void(TransportListener&)>;

  class FakeTransport final : public Transport {
   public:
    explicit FakeTransport(FakeDaemon& daemon) : daemon_(daemon) {}
    void Open(const StreamIdentity& identity,
              TransportListener* listener) override {
      daemon_.OnOpen(identity, listener);
    }
    void Send(std::span<const std::byte> chunk) override {
      daemon_.OnChunk(chunk);
    }
    void ReportCoverage(const StreamCoverage& coverage,
                        int64_t token_end) override {
      const std::lock_guard lock(daemon_.mu_);
      daemon_.coverage_ = coverage;
      daemon_.coverage_.recording_ns = daemon_.coverage_.open_ns = 0;
      daemon_.times_ = {coverage.recording_ns, coverage.open_ns};
      daemon_.token_end_ = token_end;
      ++daemon_.report_count_;
      daemon_.changed_.notify_all();
    }
    void Finish() override {
      const std::lock_guard lock(daemon_.mu_);
      daemon_.was_finished_ = true;
      if (daemon_.ignores_finish_) return;
      daemon_.Post(
          [](TransportListener& l) { l.OnEnd(StreamEnd::kFinished, ""); });
    }
    bool Stop() override { return daemon_.OnStop(); }
    void KeepMemory(std::span<std::byte> mapping) override {
      const std::lock_guard lock(daemon_.mu_);
      daemon_.kept_memory_.push_back(mapping);
    }
    void Destroy() override {
      Stop();
      delete this;
    }

   private:
    ~FakeTransport() = default;
    FakeDaemon& daemon_;
  };

  void OnOpen(const StreamIdentity& identity, TransportListener* listener) {
    const std::lock_guard lock(mu_);
    listener_ = listener;
    ++opening_count_;
    stream_id_ = identity.stream_id;
    openings_.push_back({std::string(identity.run), identity.if_exists,
                         std::string(identity.job)});
    if (opening_) {
      Post(opening_);
    } else {
      is_connected_ = true;
      if (!policy_.empty()) {
        Post([policy = policy_](TransportListener& l) {
          l.OnCapturePolicy(policy);
        });
      }
      Post([token = first_token_](TransportListener& l) {
        l.OnFirstToken(token);
      });
      if (!new_run_.empty()) {
        Post([run = new_run_](TransportListener& l) { l.OnRun(run); });
      }
      Post([count = committed_count_,
            version = chunk_version_](TransportListener& l) {
        if (version != 0) l.OnChunkVersion(version);
        l.OnCommitted(count);
      });
    }
    changed_.notify_all();
  }

  void OnChunk(std::span<const std::byte> chunk) {
    const std::lock_guard lock(mu_);
    if (!is_connected_) return;
    ++arrival_count_;
    if (std::exchange(refuses_next_, false)) {
      chunks_.resize(committed_count_);
      is_connected_ = false;
      Post([](TransportListener& l) {
        l.OnEnd(StreamEnd::kChunkRefused, "bad chunk");
      });
    } else {
      chunks_.emplace_back(chunk.begin(), chunk.end());
      if (acknowledges_) CommitLocked(chunks_.size());
    }
    changed_.notify_all();
  }

  bool OnStop() {
    std::unique_lock lock(mu_);
    TransportListener* const listener = std::exchange(listener_, nullptr);
    is_connected_ = false;
    events_.clear();
    changed_.wait(lock, [&] { return !is_calling_; });
    if (listener != nullptr && last_event_) {
      const Event event = std::exchange(last_event_, nullptr);
      lock.unlock();
      event(*listener);
      lock.lock();
    }
    return !keeps_chunks_;
  }

  void CommitLocked(uint64_t count) {
    committed_count_ = count;
    Post([count](TransportListener& l) { l.OnCommitted(count); });
  }

  void Post(Event event) {
    if (listener_ == nullptr) return;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  void RunEvents() {
    std::unique_lock lock(mu_);
    while (true) {
      changed_.wait(lock, [&] { return stops_ || !events_.empty(); });
      if (stops_) return;
      const Event event = std::move(events_.front());
      events_.pop_front();
      TransportListener* listener = listener_;
      is_calling_ = true;
      lock.unlock();
      event(*listener);
      lock.lock();
      is_calling_ = false;
      changed_.notify_all();
    }
  }

  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), condition);
  }

  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Bytes> chunks_;
  uint64_t committed_count_ = 0;
  bool acknowledges_;
  bool refuses_next_ = false;
  bool keeps_chunks_ = false;
  std::vector<std::span<std::byte>> kept_memory_;
  bool is_connected_ = false;
  bool was_finished_ = false;
  bool ignores_finish_ = false;
  size_t opening_count_ = 0;
  size_t arrival_count_ = 0;
  StreamCoverage coverage_;
  RecordingTime::Times times_;
  int64_t token_end_ = 0;
  size_t report_count_ = 0;
  uint64_t stream_id_ = 0;
  uint32_t chunk_version_ = chunk::kVersion;
  std::string policy_;
  std::string new_run_;
  uint64_t first_token_ = 0;
  std::vector<Opening> openings_;
  Event opening_;
  Event last_event_;
  TransportListener* listener_ = nullptr;
  std::deque<Event> events_;
  bool is_calling_ = false;
  bool stops_ = false;
  std::thread events_thread_{[this] { RunEvents(); }};
};

}  // namespace msitd::libmsit
