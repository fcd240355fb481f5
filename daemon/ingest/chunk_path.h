// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/fair_shares.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/ingest/ingest_options.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/ingest_stream.h"
#include "daemon/ingest/rank_history.h"
#include "daemon/ingest/stream_registry.h"
#include "daemon/metrics/latencies.h"
#include "protos/base/rank_activity.h"
#include "protos/chunk/chunk.h"
#include "protos/compute/digest_memory.h"
#include "protos/status/mutex.h"
#include "storage/face/chunk_log.h"

namespace msitd::ingest {

// The open streams and their chunks, from the transport to the store: see
// IngestPipeline. Owns the threads that digest and commit, and one mutex that
// guards all streams.
//
// Thread-safe. Functions that wait for the commit thread say so.
class ChunkPath {
 public:
  // `log` must outlive the object.
  ChunkPath(storage::ChunkLog& log, const IngestOptions& options);

  // Drains without a deadline.
  ~ChunkPath();
  ChunkPath(const ChunkPath&) = delete;
  ChunkPath& operator=(const ChunkPath&) = delete;

  // See ChunkSink.
  ChunkSink::Offered Offer(const StreamHandle& stream,
                           std::span<const std::byte> bytes,
                           std::unique_ptr<Lease> lease);
  ChunkSink::Offered Offer(const StreamHandle& stream, chunk::Chunk chunk,
                           std::unique_ptr<Lease> lease);
  void ReportCoverage(const StreamHandle& stream,
                      const StreamCoverage& coverage, int64_t token_end);
  void NoteMemory(const StreamHandle& stream,
                  std::shared_ptr<const StreamMemory> memory);
  void Finish(const StreamHandle& stream, const absl::Status& status);

  // Ends the stream that must be gone before `spec` can be added, waits for its
  // chunks in flight, and returns the share of the new stream. The caller holds
  // the run.
  //
  // Errors: those of StreamRegistry.
  absl::StatusOr<access::FairShares::Grant> MakeWay(const StreamSpec& spec)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Adds a stream of which `committed` chunks are durable, after MakeWay.
  //
  // Errors: UNAVAILABLE (NOT_SERVING) while draining.
  absl::StatusOr<StreamHandle> Add(StreamSpec spec, StreamPeer& peer,
                                   access::FairShares::Grant share,
                                   uint64_t committed) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the streams of the run. Returns after no stream is left that could add
  // to the run. If `discards`, drops the chunks in flight.
  void EndStreamsOf(std::string_view run, std::string_view what, bool discards)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Sends an encoded policy to the producers that stream into the run.
  void SendPolicy(std::string_view run,
                  std::shared_ptr<const std::string> policy)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns a token, at least `stored_end`, that no stream of the run is
  // expected to have begun when it receives a policy.
  int64_t FirstTokenAhead(std::string_view run, int64_t stored_end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the ids of the streams of the run that are not ending.
  std::vector<uint64_t> OpenStreamsOf(std::string_view run)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the id of the last known stream of the rank, even if it has ended.
  std::optional<uint64_t> LastStreamOf(std::string_view run, int32_t rank)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns which ranks of the run stream, or when they last did, until the run
  // is forgotten.
  RunActivity ActivityOf(std::string_view run) ABSL_LOCKS_EXCLUDED(mu_);
  void ForgetActivity(std::string_view run) ABSL_LOCKS_EXCLUDED(mu_);

  // Asks the storage whether it accepts chunks, and publishes its state.
  void ProbeStorage() ABSL_LOCKS_EXCLUDED(mu_);

  // See IngestPipeline.
  absl::Status Drain(std::chrono::steady_clock::time_point deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool is_draining() ABSL_LOCKS_EXCLUDED(mu_);
  IngestStats Stats() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<StreamStats> Streams(
      const std::optional<std::pair<std::string, int32_t>>& after, size_t limit)
      ABSL_LOCKS_EXCLUDED(mu_);
  const metrics::Latencies& acks() const { return acks_; }

 private:
  // Parts whose summaries are remembered.
  static constexpr size_t kDigestsKnown = size_t{1} << 14;

  // Work that the commit thread does in one round.
  struct Item {
    StreamHandle stream;
    std::unique_ptr<PendingChunk> pending;
  };
  struct Report {
    StreamHandle stream;
    StreamCoverage coverage;
  };
  struct Round {
    std::vector<Item> commits;
    std::vector<Item> discards;
    std::vector<StreamHandle> streams;
    std::vector<Report> reports;
    // One result for each of `commits`.
    std::vector<absl::Status> results;
    // True if the thread was idle long enough that the storage should be
    // probed.
    bool is_probe = false;
  };

  // Notifications for the peer of a stream, in the order of their delivery.
  struct Notice {
    StreamHandle stream;
    std::optional<uint64_t> commit;
    uint64_t conflict_count = 0;
    std::shared_ptr<const std::string> policy;
    bool resume = false;
    std::optional<absl::Status> end;
  };

  absl::Status AwaitPredecessor(const StreamSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Releases the rank of a stream that is ending, unless part of it is still to
  // be committed or the commit thread holds a report of it. Returns whether it
  // did.
  bool TryReleaseLocked(const StreamHandle& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckAddress(const IngestStream& stream,
                            const chunk::Chunk& chunk) const;
  void EndLocked(const StreamHandle& stream, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TouchLocked(const StreamHandle& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RefuseLocked(const StreamHandle& stream, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void DigestLoop();
  void CommitLoop();
  // Returns false when the thread must end. `probe`: see Round::is_probe.
  bool AwaitRound(bool& probe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Round GatherLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AppendRound(Round& round);
  void Append(std::span<Item* const> items, std::span<absl::Status*> results);
  void AppendByRun(Round& round);
  void PassOnReports(std::vector<Report> reports) ABSL_LOCKS_EXCLUDED(mu_);
  void SettleLocked(Round& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Notice NoticeLocked(const StreamHandle& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Conclude(Round& round);

  storage::ChunkLog& log_;
  const IngestOptions options_;

  Mutex mu_;
  CondVar digest_ready_;  // Something to digest, or stop_.
  CondVar commit_ready_;  // A touched stream, or stop_.
  CondVar gone_;          // The commit thread released part of a stream.
  StreamRegistry registry_ ABSL_GUARDED_BY(mu_);
  RankHistory history_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<StreamHandle, PendingChunk*>> to_digest_
      ABSL_GUARDED_BY(mu_);
  // Streams that the commit thread must process, each at most once.
  std::deque<StreamHandle> touched_ ABSL_GUARDED_BY(mu_);
  uint64_t ready_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // When the oldest ready chunk became ready; used only with a commit interval.
  std::chrono::steady_clock::time_point ready_since_ ABSL_GUARDED_BY(mu_);
  // A thread waits for the next commit, so the interval is ignored.
  bool hurry_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  IngestStats stats_ ABSL_GUARDED_BY(mu_);
  metrics::Latencies acks_;
  // Shared by all streams, which are its owners.
  compute::DigestMemory digests_{kDigestsKnown};

  std::vector<std::thread> digest_threads_;
  std::thread commit_thread_;
};

}  // namespace msitd::ingest
