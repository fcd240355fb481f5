// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/ingest/chunk_path.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/ingest/ingest_options.h"
#include "daemon/ingest/run_hold.h"
#include "protos/capture/capture_policy.h"
#include "storage/face/chunk_log.h"
#include "storage/face/runs.h"

namespace msitd::ingest {

// Selects, creates and changes the runs that streams record into. Each
// operation holds its run, and ends the streams of that run in the chunk path
// or waits for them if necessary. The chunk path uses only the names of runs.
//
// Thread-safe. The functions block, and must not be called on the threads of
// the chunk path.
class RunKeeper {
 public:
  // `runs`, `log` and `chunks` must outlive the object.
  RunKeeper(storage::Runs& runs, storage::ChunkLog& log, ChunkPath& chunks,
            const IngestOptions& options)
      : runs_(runs),
        log_(log),
        chunks_(chunks),
        note_open_(options.note_open) {}
  RunKeeper(const RunKeeper&) = delete;
  RunKeeper& operator=(const RunKeeper&) = delete;

  // See ChunkSink.
  absl::StatusOr<ChunkSink::Opened> Open(const StreamSpec& spec,
                                         StreamPeer& peer);

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

 private:
  // Implements Open for a run that is held. `spec.job` is set.
  absl::StatusOr<ChunkSink::Opened> OpenHeld(StreamSpec spec, StreamPeer& peer);
  // Returns the token at which a stream that appends to its run begins; see
  // Continue. Returns 0 for the first stream of its rank in the job that
  // created the run, because it begins like the other ranks of the job. The
  // token is durable before the producer receives it.
  //
  // A stream that only reconnects (`has_chunks`: it has recorded some) neither
  // begins nor joins a continuation: returns 0 unless it took part in one
  // before.
  absl::StatusOr<int64_t> ContinueRun(const StreamSpec& spec, bool has_chunks);
  // Calls `write`, which writes to the index without a chunk. If that fails,
  // asks the storage to resume and calls `write` again. Otherwise only chunks
  // make the storage resume.
  absl::Status WriteIndex(absl::FunctionRef<absl::Status()> write);
  // Checks that the stream may write to its run or create it.
  absl::Status CheckMayJoin(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> JoinRun(const StreamSpec& spec);
  absl::StatusOr<storage::RunInfo> CreateOrGetRun(const StreamSpec& spec);
  // Checks that the caller may change the run. The caller must hold the run, so
  // that the result stays valid until the change is made.
  absl::Status CheckHeldRun(std::string_view run, const access::Caller& caller);
  absl::StatusOr<ChunkSink::Opened> OpenAs(const StreamSpec& spec,
                                           StreamPeer& peer);
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

  storage::Runs& runs_;
  storage::ChunkLog& log_;
  ChunkPath& chunks_;
  const std::function<void(const access::Caller& caller, std::string_view run,
                           const absl::Status& status)>
      note_open_;
  HeldRuns held_;
};

}  // namespace msitd::ingest
