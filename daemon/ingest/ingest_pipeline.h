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
  // that of the thread that makes them.
  int nice = 0;

  size_t streams_max = 384;

  // A stream with this much in flight is told to wait.
  uint64_t stream_window_bytes = uint64_t{32} << 20;

  // How long a chunk may wait for others to share its sync. 0: only until the
  // sync that is under way is done.
  std::chrono::milliseconds commit_interval{0};

  // How often a storage that refused chunks is probed, so that its state is
  // known even if nobody sends any.
  std::chrono::milliseconds probe_interval{1000};

  // An Append takes no further chunk once it has this many bytes, which bounds
  // its duration.
  uint64_t commit_bytes_max = uint64_t{64} << 20;

  // Is told who opened a stream of which run, or why not. May be empty. On any
  // thread; must not block.
  std::function<void(const access::Caller& caller, std::string_view run,
                     const absl::Status& status)>
      note_open;
};

// The state of the storage after the last Append or probe.
enum class StorageState { kOk, kFull, kFailed };

// Counters count from the start of the pipeline.
struct IngestStats {
  StorageState storage_state = StorageState::kOk;
  std::string storage_error;
  uint64_t open_stream_count = 0;
  uint64_t refused_chunk_count = 0;
  // Of these, by the name of the reason; empty for none.
  std::map<std::string, uint64_t> refused_by_reason;
  // What producers reported.
  StreamCoverage coverage;
  uint64_t ready_bytes = 0;  // Digested and waiting for a commit, now.
  // Of all streams: chunks that are not durable yet, and memory that producers
  // share.
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
};

// An open stream as it is now. Counts are of this opening.
struct StreamStats {
  StreamSpec spec;
  std::chrono::steady_clock::duration age{0};
  uint64_t committed_chunk_count = 0;
  uint64_t committed_record_count = 0;
  uint64_t committed_bytes = 0;
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
  StreamCoverage coverage;  // The last report: totals of all openings.
};

// Takes the chunks of all streams, checks them, digests them on a few threads,
// and commits what is ready in groups on one thread: the only one that writes
// to the store. Within a stream the order is kept.
//
// Because it is the only writer, the life of a run goes through it too.
//
//   Offer: head copied and checked, sequence checked   (transport's thread)
//     -> summary and hash of each record               (digest threads)
//     -> Append of all that is ready, one sync         (commit thread)
//     -> Lease destroyed, StreamPeer::Commit           (commit thread)
//
// Thread-safe. Memory is bounded by what transports lend: each stream by its
// window plus one chunk, and the heads, which are copies, by as much again.
class IngestPipeline final : public ChunkSink {
 public:
  // `runs` and `log` outlive the pipeline.
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

  // Ends the streams of the run with RUN_SEALED, commits what they have in
  // flight, then seals the run. Blocks; on commits of other runs only if the
  // run has something in flight.
  //
  // Errors: FAILED_PRECONDITION (RUN_RESTORING) for others than the daemon.
  // Errors of this and of the four below: PERMISSION_DENIED (NOT_OWNER) if the
  // run is there, and neither the caller's nor is the caller an admin.
  absl::StatusOr<storage::RunInfo> SealRun(
      std::string_view run, const access::Caller& caller = access::Daemon());
  // Ends the streams of the run with RUN_SEALED, drops what they have in
  // flight, then deletes the run. Blocks on a commit only if it has chunks of
  // the run.
  absl::Status DeleteRun(std::string_view run,
                         const access::Caller& caller = access::Daemon());

  // Sets when bytes of the run go to what `change` makes of it.
  absl::StatusOr<storage::RunInfo> ChangeRetention(
      std::string_view run, const access::Caller& caller,
      absl::FunctionRef<absl::Status(storage::RunRetention&)> change);

  // Calls `change`, which changes something of the run, while nobody else
  // opens, makes, seals or deletes it.
  absl::Status ChangeRun(std::string_view run, const access::Caller& caller,
                         absl::FunctionRef<absl::Status()> change);

  // Replaces what the clients of the run record, and tells those that stream.
  // Makes the run, as that of `caller`, if there is none. Sets
  // `policy.revision`. Without a `first_token`, the policy begins behind the
  // highest token that is stored, at one that no rank is expected to have begun
  // when it hears of the policy: see TokenPace. Blocks.
  //
  // Errors: FAILED_PRECONDITION (RUN_SEALED); INVALID_ARGUMENT for a policy
  // over its bounds; those of the store. The policy before stays.
  absl::StatusOr<capture::Policy> SetCapturePolicy(
      std::string_view run, capture::Policy policy,
      std::optional<int64_t> first_token,
      const access::Caller& caller = access::Daemon());

  // Refuses new streams, ends all others with NOT_SERVING, and commits what
  // they have in flight. DEADLINE_EXCEEDED if that was not done by `deadline`.
  absl::Status Drain(std::chrono::steady_clock::time_point deadline);

  IngestStats Stats();
  // Returns at most `limit` open streams whose run and rank come behind
  // `after`, in that order; without it, from the first on.
  std::vector<StreamStats> Streams(
      const std::optional<std::pair<std::string, int32_t>>& after,
      size_t limit);
  // How long chunks took from their arrival until they were acknowledged.
  const metrics::Latencies& acks() const { return acks_; }

  // How the ranks of an active run stream.
  RunActivity ActivityOf(std::string_view run);

 private:
  // What the commit thread does in one go.
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
    // One for each of `commits`.
    std::vector<absl::Status> results;
    // True if there was nothing to do for so long that the storage is to be
    // probed.
    bool is_probe = false;
  };

  // What the peer of a stream is to hear, in this order.
  struct Notice {
    StreamHandle stream;
    std::optional<uint64_t> commit;
    uint64_t conflict_count = 0;
    std::shared_ptr<const std::string> policy;
    bool resume = false;
    std::optional<absl::Status> end;
  };

  // Held while a run is opened, sealed or deleted, so that no stream joins a
  // run that is being sealed. Its constructor waits until nobody else holds the
  // same run. Never held by the threads of the pipeline.
  class RunHold;

  // Open for a run that is held. `spec.job` is set.
  absl::StatusOr<Opened> OpenHeld(StreamSpec spec, StreamPeer& peer);
  // Returns the token at which a stream that appends to its run begins: see
  // Continue. 0 if it is the first stream of its rank in the job that made the
  // run: such a stream begins like the other ranks of the job. Durable before
  // the producer learns of it.
  //
  // A stream that only connects again (`has_chunks` if it has recorded some)
  // begins and joins nothing: 0 unless it took part in a continuation before.
  absl::StatusOr<int64_t> ContinueRun(const StreamSpec& spec, bool has_chunks)
      ABSL_LOCKS_EXCLUDED(mu_);
  // True if the last stream of the rank that this daemon knows is this one.
  bool IsLastStream(const StreamSpec& spec) ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `write`, which writes to the index without a chunk. If that fails,
  // asks the storage to resume, which else only chunks do, and calls it once
  // more.
  absl::Status WriteIndex(absl::FunctionRef<absl::Status()> write)
      ABSL_LOCKS_EXCLUDED(mu_);
  // A token, at least `stored_end`, that no stream of the run is expected to
  // have begun when it hears of a policy.
  int64_t FirstTokenAhead(std::string_view run, int64_t stored_end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Checks that the stream may write to its run or create it.
  absl::Status CheckMayJoin(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> JoinRun(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> CreateOrGetRun(const StreamSpec& spec);
  // Checks that the caller may change the run, which is held: so it is the same
  // until the change is made.
  absl::Status CheckHeldRun(std::string_view run, const access::Caller& caller);
  absl::StatusOr<Opened> OpenAs(const StreamSpec& spec, StreamPeer& peer);
  // True if a stream that wants a run for its launch alone may join this one.
  absl::StatusOr<bool> IsOwnRun(const StreamSpec& spec,
                                const storage::RunInfo& run);
  // The name of the run that IfExists::kNew leads to. `spec.run` is held, so
  // that all ranks of one launch find the same.
  absl::StatusOr<std::string> FindNewRun(const StreamSpec& spec);
  // True if IfExists::kReplace has to delete the run before the stream can
  // record. Only checks: nothing is deleted.
  absl::StatusOr<bool> MustReplaceRun(const StreamSpec& spec);
  // True if the rank had another stream in the run.
  absl::StatusOr<bool> HasRecordedBefore(const StreamSpec& spec,
                                         const storage::RunInfo& run);
  absl::Status DeleteHeldRun(std::string_view run, std::string_view what);
  void ForgetActivity(std::string_view run);
  absl::Status AwaitPredecessor(const StreamSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the streams of the run. Returns once none is left that could bring it
  // anything. `discards`: drops what is in flight.
  void EndStreamsOf(std::string_view run, std::string_view what, bool discards);
  // Frees the rank of a stream that is ending, unless something of it is left
  // to commit or the commit thread holds a report of it. True if it did.
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
  // False at the end. `probe`: see Round::is_probe.
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
  CondVar digest_ready_;  // There is something to digest, or stop_.
  CondVar commit_ready_;  // There is a touched stream, or stop_.
  CondVar gone_;          // The commit thread holds less of some stream.
  CondVar run_free_;      // A run is held no longer.
  StreamRegistry registry_ ABSL_GUARDED_BY(mu_);
  RankHistory history_ ABSL_GUARDED_BY(mu_);
  std::set<std::string, std::less<>> held_runs_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<StreamHandle, PendingChunk*>> to_digest_
      ABSL_GUARDED_BY(mu_);
  // Streams that the commit thread has to look at, each at most once.
  std::deque<StreamHandle> touched_ ABSL_GUARDED_BY(mu_);
  uint64_t ready_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // When the oldest ready chunk became so; only with a commit interval.
  std::chrono::steady_clock::time_point ready_since_ ABSL_GUARDED_BY(mu_);
  // Somebody waits for the next commit: the interval does not count.
  bool hurry_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  IngestStats stats_ ABSL_GUARDED_BY(mu_);
  metrics::Latencies acks_;

  std::vector<std::thread> digest_threads_;
  std::thread commit_thread_;
};

}  // namespace msitd::ingest
