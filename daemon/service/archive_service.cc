// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/archive_service.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "daemon/query/page_token.h"
#include "daemon/query/time_limit.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/proto_convert.h"
#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"

namespace msitd::service {
namespace {

// Each run of a page is read from its archive.
constexpr int kArchivedPageMax = 100;

// A server that fails to respond for this many runs is considered unavailable.
constexpr int kUnansweredMax = 2;

constexpr std::chrono::hours kPruneAge{24};
constexpr int64_t kPruneAgeMaxS = 1'000'000'000;

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

v1::ArchiveJob::State StateOf(archive::ArchiveJob::State state) {
  using State = archive::ArchiveJob::State;
  switch (state) {
    case State::kPending:
      return v1::ArchiveJob::PENDING;
    case State::kRunning:
      return v1::ArchiveJob::RUNNING;
    case State::kDone:
      return v1::ArchiveJob::DONE;
    case State::kFailed:
      return v1::ArchiveJob::FAILED;
  }
  return v1::ArchiveJob::STATE_UNSPECIFIED;
}

v1::ArchiveJob::Kind KindOf(archive::ArchiveJob::Kind kind) {
  using Kind = archive::ArchiveJob::Kind;
  switch (kind) {
    case Kind::kArchive:
      return v1::ArchiveJob::ARCHIVE;
    case Kind::kRestore:
      return v1::ArchiveJob::RESTORE;
    case Kind::kPrune:
      return v1::ArchiveJob::PRUNE;
  }
  return v1::ArchiveJob::KIND_UNSPECIFIED;
}

void ToMessage(const archive::ArchiveJob& job, v1::ArchiveJob& out) {
  out.set_id(job.id);
  out.set_kind(KindOf(job.kind));
  out.set_state(StateOf(job.state));
  out.set_run(job.run);
  out.set_url(job.url);
  out.set_archived_run(job.archived_run);
  out.set_record_count(Signed(job.record_count));
  out.set_record_total(Signed(job.record_total));
  out.set_sent_size_bytes(Signed(job.sent_bytes));
  out.set_verified_size_bytes(Signed(job.verified_bytes));
  out.set_give_up(job.gives_up);
  out.set_automatic(job.is_automatic);
  out.set_comparison_count(Signed(job.comparison_count));
  out.set_left_comparison_count(Signed(job.left_comparison_count));
  for (const std::string& difference : job.differences) {
    out.add_differences(difference);
  }
  out.set_unreadable_tensor_count(Signed(job.unreadable.tensor_count));
  out.set_unreadable_attachment_count(Signed(job.unreadable.attachment_count));
  for (const std::string& text : job.unreadable.texts) {
    out.add_unreadable(text);
  }
  out.set_pruned_object_count(Signed(job.pruned_count));
  out.set_pruned_size_bytes(Signed(job.pruned_bytes));
  if (job.status.ok()) return;
  out.set_problem(std::string(Message(job.status)));
  out.set_reason(Reason(job.status));
  out.set_code(static_cast<int>(job.status.code()));
}

absl::Status Answer(const absl::StatusOr<archive::ArchiveJob>& job,
                    v1::ArchiveJob& response) {
  if (!job.ok()) return job.status();
  ToMessage(*job, response);
  return absl::OkStatus();
}

void ToMessage(const storage::ArchiveManifest& manifest, v1::ArchivedRun& out) {
  const storage::RunSpec& spec = manifest.run.spec;
  out.set_world_size(spec.world_size);
  out.mutable_labels()->insert(spec.labels.begin(), spec.labels.end());
  out.set_tensor_count(Signed(manifest.run.counters.tensor_count));
  out.set_size_bytes(Signed(manifest.ObjectBytes()));
  ToProto(manifest.run.create_time_ns, *out.mutable_create_time());
  ToProto(manifest.archive_time_ns, *out.mutable_archive_time());
  out.set_owner(spec.owner);
  out.set_unreadable_tensor_count(Signed(manifest.unreadable.tensor_count));
  out.set_unreadable_attachment_count(
      Signed(manifest.unreadable.attachment_count));
}

// Adds the run to the response if it exists. A problem with one run does not
// prevent the others from being listed.
absl::Status AddRun(storage::ObjectStore& store, const std::string& run,
                    const query::TimeLimit& limit,
                    v1::ListArchivedRunsResponse& response,
                    int& unanswered_left) {
  const auto manifest = storage::ReadManifest(store, run);
  if (HasReason(manifest.status(), ErrorReason::kRunNotFound)) {
    return absl::OkStatus();
  }
  MSITD_RETURN_IF_ERROR(limit.Check());
  if (absl::IsCancelled(manifest.status())) return manifest.status();
  if (!absl::IsUnavailable(manifest.status())) {
    unanswered_left = std::numeric_limits<int>::max();
  } else if (--unanswered_left == 0) {
    return manifest.status();
  }
  v1::ArchivedRun& out = *response.add_runs();
  out.set_name(run);
  if (manifest.ok()) {
    ToMessage(*manifest, out);
  } else {
    out.set_problem(std::string(Message(manifest.status())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::chrono::seconds> ToPruneAge(
    const v1::PruneArchiveRequest& request) {
  if (!request.has_age_min()) return kPruneAge;
  const int64_t seconds = request.age_min().seconds();
  if (seconds < 0 || seconds > kPruneAgeMaxS || request.age_min().nanos() < 0) {
    return FieldInvalid("age_min",
                        fmt::format("is not in 0..{} seconds", kPruneAgeMaxS));
  }
  return std::chrono::seconds(seconds);
}

}  // namespace

absl::Status ArchiveServiceImpl::ListRuns(
    const Call& call, const v1::ListArchivedRunsRequest& request,
    v1::ListArchivedRunsResponse& response) {
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(
      const auto store,
      places_.Open(request.url(), [&limit] { return limit.Check(); }));
  MSITD_ASSIGN_OR_RETURN(const int wanted, ToPageSize(request.page_size()));
  const int page_size = std::min(wanted, kArchivedPageMax);
  MSITD_ASSIGN_OR_RETURN(
      const std::string after,
      query::DecodePageToken(request.url(), request.page_token()));
  int unanswered_left = kUnansweredMax;
  if (!request.name().empty()) {
    MSITD_RETURN_IF_ERROR(CheckRunName(request.name()));
    unanswered_left = 1;
    return AddRun(*store, request.name(), limit, response, unanswered_left);
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> runs,
                         storage::ListArchivedRuns(*store));
  int looked_at = 0;
  for (auto it = std::upper_bound(runs.begin(), runs.end(), after);
       it != runs.end(); ++it) {
    if (looked_at++ == page_size) {
      response.set_next_page_token(
          query::EncodePageToken(request.url(), *std::prev(it)));
      break;
    }
    MSITD_RETURN_IF_ERROR(
        AddRun(*store, *it, limit, response, unanswered_left));
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::ArchiveRun(
    grpc::CallbackServerContext* context, const v1::ArchiveRunRequest* request,
    v1::ArchiveJob* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call& call) {
        return Answer(jobs_.Archive(request->run(), request->url(),
                                    request->give_up(), call.caller()),
                      *response);
      });
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::RestoreRun(
    grpc::CallbackServerContext* context, const v1::RestoreRunRequest* request,
    v1::ArchiveJob* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call& call) -> absl::Status {
        MSITD_RETURN_IF_ERROR(CheckRunName(request->archived_run()));
        if (!request->run().empty()) {
          MSITD_RETURN_IF_ERROR(CheckRunName(request->run()));
        }
        return Answer(jobs_.Restore(request->url(), request->archived_run(),
                                    request->run(), call.caller()),
                      *response);
      });
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::PruneArchive(
    grpc::CallbackServerContext* context,
    const v1::PruneArchiveRequest* request, v1::ArchiveJob* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call& call) -> absl::Status {
        if (!request->archived_run().empty()) {
          MSITD_RETURN_IF_ERROR(CheckRunName(request->archived_run()));
        }
        MSITD_ASSIGN_OR_RETURN(const std::chrono::seconds age,
                               ToPruneAge(*request));
        return Answer(jobs_.Prune(request->url(), request->archived_run(), age,
                                  call.caller()),
                      *response);
      });
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::GetArchiveJob(
    grpc::CallbackServerContext* context,
    const v1::GetArchiveJobRequest* request, v1::ArchiveJob* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    return Answer(jobs_.Get(request->id()), *response);
  });
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::ListArchiveJobs(
    grpc::CallbackServerContext* context, const v1::ListArchiveJobsRequest*,
    v1::ListArchiveJobsResponse* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    for (const archive::ArchiveJob& job : jobs_.List()) {
      ToMessage(job, *response->add_jobs());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ArchiveServiceImpl::ListArchivedRuns(
    grpc::CallbackServerContext* context,
    const v1::ListArchivedRunsRequest* request,
    v1::ListArchivedRunsResponse* response) {
  return UnaryCall::Start(pools_.reductions, *context,
                          [=, this](const Call& call) {
                            return ListRuns(call, *request, *response);
                          });
}

}  // namespace msitd::service
