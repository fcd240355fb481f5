// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ingest/continue_run.h"
#include "daemon/ingest/ingest_errors.h"
#include "daemon/ingest/run_keeper.h"
#include "protos/base/limits.h"
#include "protos/base/recording_job.h"
#include "protos/status/status.h"

// Selects the run of a stream.
namespace msitd::ingest {
namespace {

using Code = absl::StatusCode;

// Number of runs requested from the store at a time.
constexpr size_t kRunsAtOnce = 256;

// Names that end in a greater number are ignored, so that a client cannot
// exhaust the numbers.
constexpr uint32_t kNewRunNumberMax = 999'999'999;

absl::Status CheckSpec(const StreamSpec& spec) {
  if (spec.stream_id == 0) {
    return WithReason(MakeStatus(Code::kInvalidArgument, "stream_id is 0"),
                      ErrorReason::kFieldInvalid);
  }
  if (spec.world_size < 1 || spec.world_size > kRankMax + 1) {
    return WithReason(
        MakeStatus(Code::kInvalidArgument, "world_size: {} is not in 1..{}",
                   spec.world_size, kRankMax + 1),
        ErrorReason::kFieldInvalid);
  }
  if (spec.rank < 0 || spec.rank >= spec.world_size) {
    return WithReason(
        MakeStatus(Code::kInvalidArgument, "rank {} is not in 0..{}", spec.rank,
                   spec.world_size - 1),
        ErrorReason::kRankOutOfRange);
  }
  if (spec.job.size() > kJobBytesMax) {
    return WithReason(MakeStatus(Code::kInvalidArgument,
                                 "job: {} bytes long, at most {} are taken",
                                 spec.job.size(), kJobBytesMax),
                      ErrorReason::kFieldInvalid);
  }
  return absl::OkStatus();
}

std::string JobOf(const StreamSpec& spec) {
  return spec.job.empty() ? fmt::format("{} {:08x}", kLaunchOfProcess,
                                        ProcessOf(spec.stream_id))
                          : spec.job;
}

// Returns whether the run was created in advance and no producer has streamed
// into it yet.
bool IsUntouched(const storage::RunInfo& run) {
  return run.spec.job.empty() && run.counters.record_count() == 0;
}

// Returns whether streams of a job of `world_size` ranks may write to the run.
bool TakesStreams(const storage::RunInfo& run, int32_t world_size) {
  return !run.sealed && !run.spec.restoring &&
         (run.spec.world_size == 0 || run.spec.world_size == world_size);
}

absl::Status RankRecorded(const StreamSpec& spec) {
  return WithReason(
      MakeStatus(Code::kFailedPrecondition,
                 "run '{}' already has tensors of rank {} from another client: "
                 "use another name, or set if_exists to append, replace or new",
                 spec.run, spec.rank),
      ErrorReason::kRunExists);
}

// Returns whether the stream certainly belongs to another launch than the one
// that created the run.
bool IsOfOtherLaunch(const StreamSpec& spec, const storage::RunInfo& run) {
  const std::string_view launch = ParseRecordingJob(spec.job).launch;
  const std::string_view first = ParseRecordingJob(run.spec.job).launch;
  return launch != first && IsNamedLaunch(launch) && IsNamedLaunch(first);
}

absl::Status LaunchRecorded(const StreamSpec& spec, std::string_view job) {
  return WithReason(
      MakeStatus(Code::kFailedPrecondition,
                 "run '{}' belongs to launch '{}', and rank {} to launch '{}': "
                 "use another name, or set if_exists to append, replace or new",
                 spec.run, ParseRecordingJob(job).launch, spec.rank,
                 ParseRecordingJob(spec.job).launch),
      ErrorReason::kRunExists);
}

absl::Status RunBusy(std::string_view run, bool is_of_same_process) {
  return WithReason(MakeStatus(Code::kAlreadyExists,
                               "run '{}' cannot be replaced while {} it{}", run,
                               is_of_same_process
                                   ? "other clients of this process stream into"
                                   : "other clients stream into",
                               is_of_same_process ? ": close them first" : ""),
                    ErrorReason::kRankBusy);
}

// Returns whether both are recordings of the same launch and `job` is the later
// one.
bool IsLaterRecording(std::string_view job, std::string_view than) {
  const RecordingJob later = ParseRecordingJob(job);
  const RecordingJob earlier = ParseRecordingJob(than);
  return later.launch == earlier.launch && later.number > earlier.number;
}

absl::Status RecordingReplaced(const StreamSpec& spec, std::string_view job) {
  return WithReason(
      MakeStatus(Code::kAlreadyExists,
                 "recording {} of rank {} is too late: another rank of the job "
                 "has replaced run '{}' with recording {}. Let all ranks "
                 "finish a recording before one begins the next, or set "
                 "if_exists to new",
                 ParseRecordingJob(spec.job).number, spec.rank, spec.run,
                 ParseRecordingJob(job).number),
      ErrorReason::kRunExists);
}

// Checks that the stream may write to the run, regardless of the tensors in the
// run.
absl::Status CheckJoin(const StreamSpec& spec, const storage::RunInfo& run) {
  MSITD_RETURN_IF_ERROR(
      access::CheckMayAdd(spec.caller, run.spec.owner, spec.run));
  if (run.sealed) return RunSealed(spec.run, "is sealed");
  if (spec.restored_run.has_value()) {
    if (!run.spec.restoring || run.id != *spec.restored_run) {
      return WithReason(
          MakeStatus(Code::kAborted, "run '{}' is not the one that is restored",
                     spec.run),
          ErrorReason::kRunNotFound);
    }
  } else if (run.spec.restoring) {
    return storage::RunRestoring(spec.run);
  }
  if (run.spec.world_size != 0 && run.spec.world_size != spec.world_size) {
    return WithReason(
        MakeStatus(Code::kFailedPrecondition,
                   "run '{}' has world size {}, the stream says {}", spec.run,
                   run.spec.world_size, spec.world_size),
        ErrorReason::kRunExists);
  }
  if (spec.if_exists == IfExists::kFail && IsOfOtherLaunch(spec, run)) {
    return LaunchRecorded(spec, run.spec.job);
  }
  return absl::OkStatus();
}

// Returns the number after `prefix` in `name`, as IfExists::kNew assigns it; 0
// if there is none.
uint32_t NumberBehind(std::string_view prefix, std::string_view name) {
  const std::string_view digits = name.substr(prefix.size());
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_canonical =
      error == std::errc() && end == digits.data() + digits.size() &&
      digits.front() != '0' && number >= 2 && number <= kNewRunNumberMax;
  return is_canonical ? number : 0;
}

}  // namespace

absl::StatusOr<ChunkSink::Opened> RunKeeper::Open(const StreamSpec& spec,
                                                  StreamPeer& peer) {
  absl::StatusOr<ChunkSink::Opened> opened = OpenAs(spec, peer);
  if (note_open_) {
    note_open_(spec.caller, opened.ok() ? opened->run : spec.run,
               opened.status());
  }
  return opened;
}

absl::StatusOr<ChunkSink::Opened> RunKeeper::OpenAs(const StreamSpec& wanted,
                                                    StreamPeer& peer) {
  MSITD_RETURN_IF_ERROR(CheckSpec(wanted));
  MSITD_RETURN_IF_ERROR(access::CheckRole(wanted.caller, access::Role::kWriter,
                                          "a stream that records"));
  StreamSpec spec = wanted;
  spec.job = JobOf(wanted);
  const RunHold hold(held_, spec.run);
  if (chunks_.is_draining()) return NotServing();
  std::optional<RunHold> new_hold;
  if (spec.if_exists == IfExists::kNew) {
    MSITD_ASSIGN_OR_RETURN(spec.run, FindNewRun(spec));
    if (spec.run != wanted.run) new_hold.emplace(held_, spec.run);
  }
  return OpenHeld(std::move(spec), peer);
}

absl::StatusOr<ChunkSink::Opened> RunKeeper::OpenHeld(StreamSpec spec,
                                                      StreamPeer& peer) {
  // All checks that can refuse the stream are made before any run is created,
  // changed or deleted, so a refused stream leaves no trace.
  bool replaces = false;
  if (spec.if_exists == IfExists::kReplace) {
    MSITD_ASSIGN_OR_RETURN(replaces, MustReplaceRun(spec));
  }
  if (!replaces) MSITD_RETURN_IF_ERROR(CheckMayJoin(spec));
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         chunks_.MakeWay(spec));
  // No chunk of this stream is in flight, and no other stream can join while
  // the run is held.
  uint64_t committed = 0;
  if (!replaces) {
    MSITD_ASSIGN_OR_RETURN(committed, log_.CommittedChunkCount(
                                          spec.run, spec.rank, spec.stream_id));
    if (spec.if_exists == IfExists::kFail && committed == 0) {
      MSITD_ASSIGN_OR_RETURN(
          const bool is_recorded,
          log_.HasChunksOfOthers(spec.run, spec.rank, spec.stream_id));
      if (is_recorded) return RankRecorded(spec);
    }
  } else {
    MSITD_RETURN_IF_ERROR(DeleteHeldRun(spec.run, "was replaced"));
  }
  MSITD_ASSIGN_OR_RETURN(storage::RunInfo run, JoinRun(spec));
  int64_t first_token = 0;
  if (spec.if_exists == IfExists::kAppend) {
    MSITD_ASSIGN_OR_RETURN(first_token, ContinueRun(spec, committed > 0));
  }
  std::string name = spec.run;
  MSITD_ASSIGN_OR_RETURN(
      StreamHandle stream,
      chunks_.Add(std::move(spec), peer, std::move(share), committed));
  return ChunkSink::Opened{std::move(stream), std::move(name), committed,
                           std::move(run.capture_policy), first_token};
}

absl::StatusOr<int64_t> RunKeeper::ContinueRun(const StreamSpec& spec,
                                               bool has_chunks) {
  // Read the run again, because earlier streams of the rank may have committed
  // more since the run was joined.
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, runs_.GetRun(spec.run));
  MSITD_ASSIGN_OR_RETURN(storage::RunContinuations known,
                         runs_.GetContinuations(spec.run, spec.rank));
  const bool takes_part =
      known.rank.has_value() && known.rank->stream_id == spec.stream_id;
  if (!takes_part && (has_chunks || chunks_.LastStreamOf(spec.run, spec.rank) ==
                                        spec.stream_id))
    return 0;
  if (run.spec.job == spec.job && !HasContinued(known, spec.job)) {
    MSITD_ASSIGN_OR_RETURN(
        const bool is_recorded,
        log_.HasChunksOfOthers(spec.run, spec.rank, spec.stream_id));
    if (!is_recorded) return 0;
  }
  const Continued continued =
      Continue(known, spec.job, spec.stream_id, run.counters.token_end);
  if (continued.has_changed) {
    MSITD_RETURN_IF_ERROR(WriteIndex([&] {
      return runs_.SetContinuations(spec.run, spec.rank, known,
                                    continued.has_new_job);
    }));
  }
  return continued.first_token;
}

absl::Status RunKeeper::WriteIndex(absl::FunctionRef<absl::Status()> write) {
  absl::Status status = write();
  if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
    return status;
  }
  chunks_.ProbeStorage();
  return write();
}

absl::StatusOr<storage::RunInfo> RunKeeper::CreateOrGetRun(
    const StreamSpec& spec) {
  absl::StatusOr<storage::RunInfo> found = runs_.GetRun(spec.run);
  if (found.status().code() == Code::kNotFound) {
    WriteIndex([&] {
      found = runs_.CreateRun(
          {.name = spec.run,
           .world_size = spec.world_size,
           .labels = {},
           .job = spec.job,
           .owner = spec.caller.name,
           .is_for_admin = spec.caller.role == access::Role::kAdmin});
      return found.status();
    }).IgnoreError();
    // RunService may have created the run in the meantime.
    if (found.status().code() == Code::kAlreadyExists) {
      found = runs_.GetRun(spec.run);
    }
  }
  return found;
}

absl::Status RunKeeper::CheckMayJoin(const StreamSpec& spec) {
  const absl::StatusOr<storage::RunInfo> run = runs_.GetRun(spec.run);
  const bool may_be_created = !spec.restored_run.has_value();
  if (may_be_created && absl::IsNotFound(run.status())) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(run.status());
  return CheckJoin(spec, *run);
}

absl::StatusOr<storage::RunInfo> RunKeeper::JoinRun(const StreamSpec& spec) {
  MSITD_ASSIGN_OR_RETURN(storage::RunInfo run, spec.restored_run.has_value()
                                                   ? runs_.GetRun(spec.run)
                                                   : CreateOrGetRun(spec));
  // RunService may have created the run after the first check.
  MSITD_RETURN_IF_ERROR(CheckJoin(spec, run));
  if (IsUntouched(run)) {
    MSITD_ASSIGN_OR_RETURN(run, runs_.SetJob(spec.run, spec.job));
  }
  if (run.spec.world_size == 0) {
    return runs_.SetWorldSize(spec.run, spec.world_size);
  }
  return run;
}

absl::StatusOr<bool> RunKeeper::HasRecordedBefore(const StreamSpec& spec,
                                                  const storage::RunInfo& run) {
  if (chunks_.LastStreamOf(run.spec.name, spec.rank).value_or(spec.stream_id) !=
      spec.stream_id) {
    return true;
  }
  return log_.HasChunksOfOthers(run.spec.name, spec.rank, spec.stream_id);
}

absl::StatusOr<bool> RunKeeper::IsOwnRun(const StreamSpec& spec,
                                         const storage::RunInfo& run) {
  if (!TakesStreams(run, spec.world_size)) return false;
  if (IsUntouched(run)) return true;
  if (run.spec.job != spec.job) return false;
  // Two recordings have the same job if a launch is repeated. But within one
  // recording each rank has only one stream.
  MSITD_ASSIGN_OR_RETURN(const bool has_recorded, HasRecordedBefore(spec, run));
  return !has_recorded;
}

absl::StatusOr<std::string> RunKeeper::FindNewRun(const StreamSpec& spec) {
  // The newest run of this launch.
  std::optional<storage::RunInfo> own;
  const absl::StatusOr<storage::RunInfo> base = runs_.GetRun(spec.run);
  if (!base.ok() && base.status().code() != Code::kNotFound) {
    return base.status();
  }
  const auto is_open_to_caller = [&spec](const storage::RunInfo& run) {
    return access::CheckMayAdd(spec.caller, run.spec.owner, run.spec.name).ok();
  };
  const bool may_use_base = base.ok() && is_open_to_caller(*base);
  if (may_use_base && base->spec.job == spec.job) own = *base;
  const std::string prefix = spec.run + "-";
  uint32_t last = 1;
  uint32_t own_number = 1;
  std::string after = prefix;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RunInfo> runs,
                           runs_.ListRuns(after, kRunsAtOnce));
    for (const storage::RunInfo& run : runs) {
      if (!run.spec.name.starts_with(prefix)) break;
      const uint32_t number = NumberBehind(prefix, run.spec.name);
      last = std::max(last, number);
      if (number > own_number && run.spec.job == spec.job &&
          is_open_to_caller(run)) {
        own = run;
        own_number = number;
      }
    }
    if (runs.empty() || !runs.back().spec.name.starts_with(prefix)) break;
    after = runs.back().spec.name;
  }
  if (own.has_value()) {
    MSITD_ASSIGN_OR_RETURN(const bool is_own, IsOwnRun(spec, *own));
    if (is_own) return own->spec.name;
  } else if (!base.ok() || (may_use_base && IsUntouched(*base) &&
                            TakesStreams(*base, spec.world_size))) {
    return spec.run;
  }
  std::string name = fmt::format("{}{}", prefix, last + 1);
  if (name.size() <= kRunNameBytesMax) return name;
  return WithReason(
      MakeStatus(Code::kInvalidArgument,
                 "run '{}' exists, and '{}' is longer than {} bytes", spec.run,
                 name, kRunNameBytesMax),
      ErrorReason::kNameTooLong);
}

absl::StatusOr<bool> RunKeeper::MustReplaceRun(const StreamSpec& spec) {
  const absl::StatusOr<storage::RunInfo> run = runs_.GetRun(spec.run);
  if (absl::IsNotFound(run.status())) return false;
  MSITD_RETURN_IF_ERROR(run.status());
  MSITD_ASSIGN_OR_RETURN(const bool is_own, IsOwnRun(spec, *run));
  if (is_own) return false;
  MSITD_RETURN_IF_ERROR(access::CheckOwner(spec.caller, run->spec.owner,
                                           fmt::format("run '{}'", spec.run)));
  if (run->spec.restoring) return storage::RunRestoring(spec.run);
  if (TakesStreams(*run, spec.world_size) &&
      IsLaterRecording(run->spec.job, spec.job)) {
    // A rank that has already recorded in the later recording belongs to a
    // launch that is repeated with the same job. Otherwise the rank lags
    // behind.
    MSITD_ASSIGN_OR_RETURN(const bool has_recorded,
                           HasRecordedBefore(spec, *run));
    if (!has_recorded) return RecordingReplaced(spec, run->spec.job);
  }
  const std::vector<uint64_t> streams = chunks_.OpenStreamsOf(spec.run);
  const bool is_of_same_process =
      std::all_of(streams.begin(), streams.end(), [&spec](uint64_t stream_id) {
        return ProcessOf(stream_id) == ProcessOf(spec.stream_id);
      });
  if (!streams.empty()) return RunBusy(spec.run, is_of_same_process);
  return true;
}

}  // namespace msitd::ingest
