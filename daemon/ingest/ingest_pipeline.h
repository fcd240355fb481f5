// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/ingest/ingest_stream.h"
#include "daemon/ingest/rank_history.h"
#include "daemon/ingest/stream_registry.h"
#include "daemon/metrics/latencies.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk.h"
#include "protos/status/mutex.h"
#include "storage/face/chunk_log.h"
#include "storage/face/runs.h"

namespace msitd::ingest {

struct IngestOptions {
  int digest_threads = 2;

  // Niceness of the digest threads and the commit thread, if it is higher than
  // the niceness of the thread that creates them.
  int nice = 0;

  size_t streams_max = 384;

  // A stream with this many bytes in flight is told to wait.
  uint64_t stream_window_bytes = uint64_t{32} << 20;

  // How long a chunk may wait for others to share its sync. 0: only until the
  // sync in progress is finished.
  std::chrono::milliseconds commit_interval{0};

  // How often a storage that refused chunks is probed, so that its state stays
  // current even if no producer sends chunks.
  std::chrono::milliseconds probe_interval{1000};

  // An Append accepts no further chunks once it has this many bytes, which
  // bounds its duration.
  uint64_t commit_bytes_max = uint64_t{64} << 20;

  // Called when a stream of a run was opened or refused. May be empty. Runs on
  // any thread and must not block.
  std::function<void(const access::Caller& caller, std::string_view run,
                     const absl::Status& status)>
      note_open;
};

// State of the storage after the last Append or probe.
enum class StorageState { kOk, kFull, kFailed };

// Counters start at zero when the pipeline is created.
struct IngestStats {
  StorageState storage_state = StorageState::kOk;
  std::string storage_error;
  uint64_t open_stream_count = 0;
  uint64_t refused_chunk_count = 0;
  // Refused chunks by the name of the reason; the name is empty if there is
  // none.
  std::map<std::string, uint64_t> refused_by_reason;
  // Totals reported by producers.
  StreamCoverage coverage;
  uint64_t ready_bytes = 0;  // Digested and waiting for a commit now.
  // Totals of all streams: bytes of chunks that are not durable yet, and bytes
  // of memory that producers share.
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
};

// Current state of an open stream. Counts start when the stream was opened.
struct StreamStats {
  StreamSpec spec;
  std::chrono::steady_clock::duration age{0};
  uint64_t committed_chunk_count = 0;
  uint64_t committed_record_count = 0;
  uint64_t committed_bytes = 0;
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
  StreamCoverage coverage;  // Last report: totals of all openings.
};

// Accepts the chunks of all streams, checks them, computes their digests and
// commits them to the store.
//
//   Offer: copy and check the head, check the sequence   (transport's thread)
//     -> summary and hash of each record                 (digest threads)
//     -> one Append of all ready chunks, one sync        (commit thread)
//     -> destroy the Lease, call StreamPeer::Commit      (commit thread)
//
// The problem: many ranks send chunks at the same time, and each chunk may be
// acknowledged only after it is durable. A sync per chunk would bound the rate
// of all streams by the latency of the disk. A segment per stream would need
// one sync per stream and would leave the store with many small files.
//
// The design: only one thread writes chunks to the store. It commits in groups,
// so that all chunks that are ready share one Append and one sync. Chunks
// become ready while a sync is in progress, so groups grow with the load and no
// timer is needed; `commit_interval` can enlarge groups further at the price of
// latency. Digests are independent of each other, so several threads compute
// them before the commit. They may finish in any order, but a stream commits in
// the order of its chunks. The pipeline does not copy payloads: they are
// written from the memory that the transport lends, which is returned only
// after the commit.
//
// The costs:
// - All streams share the fate of a commit. A slow sync delays every stream,
//   and `commit_bytes_max` bounds how long one Append takes. A run that is
//   sealed or deleted fails the Append of the whole group, which is then
//   repeated for each run separately.
// - Operations on runs have to be ordered with the writer, so opening, sealing
//   and deleting a run go through the pipeline as well. Such an operation waits
//   for commits only if its own run has chunks in flight, which keeps a disk
//   that hangs from blocking other callers.
// - Producers wait for the disk. Memory is bounded by the memory that
//   transports lend: the window of each stream plus one chunk. Heads are
//   copied, which adds at most the same amount again.
//
// Thread-safe.
class IngestPipeline final : public ChunkSink {
 public:
  // `runs` and `log` must outlive the pipeline.
  IngestPipeline(storage::Runs& runs, storage::ChunkLog& log,
                 const IngestOptions& options);

  // Drains without a deadline.
  ~IngestPipeline() override;
  IngestPipeline(const IngestPipeline&) = delete;
  IngestPipeline& operator=(const IngestPipeline&) = delete;

  absl::StatusOr<Opened> Open(const StreamSpec& spec,
                              StreamPeer& peer) override;
  Offered Offer(const StreamHandle& stream, std::span<const std::byte> bytes,
                std::unique_ptr<Lease> lease) override;
  Offered Offer(const StreamHandle& stream, chunk::Chunk chunk,
                std::unique_ptr<Lease> lease) override;
  void ReportCoverage(const StreamHandle& stream,
                      const StreamCoverage& coverage,
                      int64_t token_end) override;
  void NoteMemory(const StreamHandle& stream,
                  std::shared_ptr<const StreamMemory> memory) override;
  void Finish(const StreamHandle& stream, const absl::Status& status) override;

  // Ends the streams of the run with RUN_SEALED, commits their chunks in
  // flight, then seals the run. Blocks. Waits for commits of other runs only if
  // this run has chunks in flight.
  //
  // Errors: FAILED_PRECONDITION (RUN_RESTORING) unless the daemon is the
  // caller. This function and the four below also return PERMISSION_DENIED
  // (NOT_OWNER) if the run exists and the caller is neither its owner nor an
  // admin.
  absl::StatusOr<storage::RunInfo> SealRun(
      std::string_view run, const access::Caller& caller = access::Daemon());
  // Ends the streams of the run with RUN_SEALED, drops their chunks in flight,
  // then deletes the run. Waits for a commit only if it contains chunks of the
  // run.
  absl::Status DeleteRun(std::string_view run,
                         const access::Caller& caller = access::Daemon());

  // Applies `change` to the retention settings of the run, which define when
  // its bytes are removed.
  absl::StatusOr<storage::RunInfo> ChangeRetention(
      std::string_view run, const access::Caller& caller,
      absl::FunctionRef<absl::Status(storage::RunRetention&)> change);

  // Calls `change`, which modifies the run, while no other thread can open,
  // create, seal or delete the run.
  absl::Status ChangeRun(std::string_view run, const access::Caller& caller,
                         absl::FunctionRef<absl::Status()> change);

  // Replaces the capture policy of the run and sends it to the clients that
  // stream. Creates the run, with `caller` as its owner, if it does not exist.
  // Sets `policy.revision`. If `first_token` is not given, the policy begins
  // after the highest stored token, at a token that no rank is expected to have
  // begun when it receives the policy; see TokenPace. Blocks.
  //
  // Errors: FAILED_PRECONDITION (RUN_SEALED); INVALID_ARGUMENT for a policy
  // that exceeds its limits; those of the store. On error the previous policy
  // remains in effect.
  absl::StatusOr<capture::Policy> SetCapturePolicy(
      std::string_view run, capture::Policy policy,
      std::optional<int64_t> first_token,
      const access::Caller& caller = access::Daemon());

  // Refuses new streams, ends all open streams with NOT_SERVING, and commits
  // their chunks in flight. Returns DEADLINE_EXCEEDED if this is not finished
  // by `deadline`.
  absl::Status Drain(std::chrono::steady_clock::time_point deadline);

  IngestStats Stats();
  // Returns at most `limit` open streams whose run and rank sort after `after`,
  // in that order. Without `after`, starts with the first stream.
  std::vector<StreamStats> Streams(
      const std::optional<std::pair<std::string, int32_t>>& after,
      size_t limit);
  // Time from the arrival of chunks to their acknowledgement.
  const metrics::Latencies& acks() const { return acks_; }

  // Returns which ranks of the run stream, or when they last did.
  RunActivity ActivityOf(std::string_view run);

 private:
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

  // Held while a run is opened, sealed or deleted, so that no stream can join a
  // run that is being sealed. The constructor waits until no other thread holds
  // the same run. Never held by the threads of the pipeline.
  class RunHold;

  // Implements Open for a run that is held. `spec.job` is set.
  absl::StatusOr<Opened> OpenHeld(StreamSpec spec, StreamPeer& peer);
  // Returns the token at which a stream that appends to its run begins; see
  // Continue. Returns 0 for the first stream of its rank in the job that
  // created the run, because it begins like the other ranks of the job. The
  // token is durable before the producer receives it.
  //
  // A stream that only reconnects (`has_chunks`: it has recorded some) neither
  // begins nor joins a continuation: returns 0 unless it took part in one
  // before.
  absl::StatusOr<int64_t> ContinueRun(const StreamSpec& spec, bool has_chunks)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether this stream is the last known stream of the rank.
  bool IsLastStream(const StreamSpec& spec) ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `write`, which writes to the index without a chunk. If that fails,
  // asks the storage to resume and calls `write` again. Otherwise only chunks
  // make the storage resume.
  absl::Status WriteIndex(absl::FunctionRef<absl::Status()> write)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns a token, at least `stored_end`, that no stream of the run is
  // expected to have begun when it receives a policy.
  int64_t FirstTokenAhead(std::string_view run, int64_t stored_end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Checks that the stream may write to its run or create it.
  absl::Status CheckMayJoin(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> JoinRun(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> CreateOrGetRun(const StreamSpec& spec);
  // Checks that the caller may change the run. The caller must hold the run, so
  // that the result stays valid until the change is made.
  absl::Status CheckHeldRun(std::string_view run, const access::Caller& caller);
  absl::StatusOr<Opened> OpenAs(const StreamSpec& spec, StreamPeer& peer);
  // Returns whether a stream that requires a run of its own launch may join
  // this run.
  absl::StatusOr<bool> IsOwnRun(const StreamSpec& spec,
                                const storage::RunInfo& run);
  // Returns the name of the run that IfExists::kNew selects. `spec.run` is
  // held, so that all ranks of a launch find the same run.
  absl::StatusOr<std::string> FindNewRun(const StreamSpec& spec);
  // Returns whether IfExists::kReplace requires the run to be deleted before
  // the stream can record. Does not delete anything.
  absl::StatusOr<bool> MustReplaceRun(const StreamSpec& spec);
  // Returns whether the rank had another stream in the run.
  absl::StatusOr<bool> HasRecordedBefore(const StreamSpec& spec,
                                         const storage::RunInfo& run);
  absl::Status DeleteHeldRun(std::string_view run, std::string_view what);
  void ForgetActivity(std::string_view run);
  absl::Status AwaitPredecessor(const StreamSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the streams of the run. Returns after no stream is left that could add
  // to the run. If `discards`, drops the chunks in flight.
  void EndStreamsOf(std::string_view run, std::string_view what, bool discards);
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
  void ProbeStorage();
  Round GatherLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AppendRound(Round& round);
  void Append(std::span<Item* const> items, std::span<absl::Status*> results);
  void AppendByRun(Round& round);
  void PassOnReports(std::vector<Report> reports) ABSL_LOCKS_EXCLUDED(mu_);
  void SettleLocked(Round& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Notice NoticeLocked(const StreamHandle& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Conclude(Round& round);

  storage::Runs& runs_;
  storage::ChunkLog& log_;
  const IngestOptions options_;

  Mutex mu_;
  CondVar digest_ready_;  // Something to digest, or stop_.
  CondVar commit_ready_;  // A touched stream, or stop_.
  CondVar gone_;          // The commit thread released part of a stream.
  CondVar run_free_;      // A run is no longer held.
  StreamRegistry registry_ ABSL_GUARDED_BY(mu_);
  RankHistory history_ ABSL_GUARDED_BY(mu_);
  std::set<std::string, std::less<>> held_runs_ ABSL_GUARDED_BY(mu_);
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

  std::vector<std::thread> digest_threads_;
  std::thread commit_thread_;
};

}  // namespace msitd::ingest
