// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/run_service.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "daemon/compare/job/run_ranks_message.h"
#include "daemon/query/page_token.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/limits.h"
#include "protos/base/run_limits.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

constexpr std::string_view kListKey = "ListRuns";

// A page ends with the run that reaches this size, as run_service.proto states.
// Few runs are requested from the store at once, because each may have long
// labels.
constexpr size_t kPageBytesMax = size_t{1} << 20;
constexpr size_t kRunsAtOnce = 16;

absl::StatusOr<storage::RunSpec> ToSpec(const v1::Run& run) {
  MSITD_RETURN_IF_ERROR(CheckRunName(run.name()));
  if (run.world_size() < 0 || run.world_size() > kRankMax + 1) {
    return FieldInvalid(
        "run.world_size",
        fmt::format("{} is not in 0..{}", run.world_size(), kRankMax + 1));
  }
  if (run.labels().size() > kRunLabelsMax) {
    return FieldInvalid("run.labels",
                        fmt::format("{} labels, at most {} are taken",
                                    run.labels_size(), kRunLabelsMax));
  }
  storage::RunSpec spec{run.name(), run.world_size(), {}};
  for (const auto& [key, value] : run.labels()) {
    if (!IsRunLabel(key, value)) {
      return FieldInvalid(
          "run.labels",
          fmt::format("a label has {} bytes, or no key; 1 to {} "
                      "are taken, key and value together",
                      key.size() + value.size(), kRunLabelBytesMax));
    }
    spec.labels.emplace(key, value);
  }
  return spec;
}

// Applies the fields that are set in `changes`.
absl::Status Apply(const v1::Retention& changes,
                   storage::RunRetention& retention) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  constexpr int64_t kAgeMaxSeconds = 1'000'000'000;
  storage::RetentionLimits& limits = retention.limits;
  if (changes.has_pinned()) retention.pinned = changes.pinned();
  if (changes.has_size_bytes_max()) {
    if (changes.size_bytes_max() < 0) {
      return FieldInvalid("retention.size_bytes_max", "is negative");
    }
    limits.bytes_max = static_cast<uint64_t>(changes.size_bytes_max());
  }
  if (changes.has_age_max()) {
    const google::protobuf::Duration& age = changes.age_max();
    if (age.seconds() < 0 || age.seconds() > kAgeMaxSeconds ||
        age.nanos() < 0 || age.nanos() >= kNsPerSecond) {
      return FieldInvalid(
          "retention.age_max",
          fmt::format("is not in 0..{} seconds", kAgeMaxSeconds));
    }
    limits.age_max_ns = age.seconds() * kNsPerSecond + age.nanos();
  }
  if (changes.has_token_count()) {
    if (changes.token_count() < 0) {
      return FieldInvalid("retention.token_count", "is negative");
    }
    limits.token_count = changes.token_count();
  }
  return absl::OkStatus();
}

absl::StatusOr<storage::RunRanks> FindRanks(storage::RunReaders& readers,
                                            const storage::RunInfo& run) {
  MSITD_ASSIGN_OR_RETURN(const auto reader,
                         readers.OpenRunAsItIs(run.spec.name));
  return storage::FindRunRanks(*reader, run, {});
}

v1::RunArchive::State ArchiveStateOf(archive::ArchiveJob::State state) {
  using State = archive::ArchiveJob::State;
  switch (state) {
    case State::kPending:
      return v1::RunArchive::PENDING;
    case State::kRunning:
      return v1::RunArchive::RUNNING;
    case State::kDone:
      return v1::RunArchive::ARCHIVED;
    case State::kFailed:
      return v1::RunArchive::FAILED;
  }
  return v1::RunArchive::STATE_UNSPECIFIED;
}

}  // namespace

void RunServiceImpl::ToMessage(const storage::RunInfo& run,
                               const storage::RunRanks& ranks, v1::Run& out) {
  ToProto(run, out);
  compare::ToMessage(ranks, out);
  const std::optional<archive::RunArchive> archived = archives_.OfRun(run);
  if (!archived.has_value()) return;
  v1::RunArchive& archive = *out.mutable_archive();
  archive.set_url(archived->url);
  archive.set_state(ArchiveStateOf(archived->state));
  archive.set_problem(std::string(Message(archived->last)));
  archive.set_unreadable_tensor_count(
      static_cast<int64_t>(archived->unreadable_count));
  if (archived->retry_time_ns > 0) {
    ToProto(archived->retry_time_ns, *archive.mutable_retry_time());
  }
}

absl::Status RunServiceImpl::Answer(absl::StatusOr<storage::RunInfo> run,
                                    v1::Run& response) {
  if (!run.ok()) return run.status();
  MSITD_ASSIGN_OR_RETURN(const storage::RunRanks ranks,
                         FindRanks(readers_, *run));
  ToMessage(*run, ranks, response);
  return absl::OkStatus();
}

absl::Status RunServiceImpl::List(const v1::ListRunsRequest& request,
                                  v1::ListRunsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  MSITD_ASSIGN_OR_RETURN(
      std::string after,
      query::DecodePageToken(kListKey, request.page_token()));
  size_t bytes = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RunInfo> runs,
                           runs_.ListRuns(after, kRunsAtOnce));
    if (runs.empty()) return absl::OkStatus();
    for (const storage::RunInfo& run : runs) {
      if (response.runs_size() == page_size || bytes >= kPageBytesMax) {
        response.set_next_page_token(query::EncodePageToken(kListKey, after));
        return absl::OkStatus();
      }
      const auto ranks = FindRanks(readers_, run);
      // The run was deleted in the meantime.
      if (absl::IsNotFound(ranks.status())) continue;
      MSITD_RETURN_IF_ERROR(ranks.status());
      v1::Run& out = *response.add_runs();
      ToMessage(run, *ranks, out);
      bytes += out.ByteSizeLong();
      after = run.spec.name;
    }
  }
}

absl::Status RunServiceImpl::Create(const access::Caller& caller,
                                    const v1::CreateRunRequest& request,
                                    v1::Run& response) {
  MSITD_ASSIGN_OR_RETURN(storage::RunSpec spec, ToSpec(request.run()));
  spec.owner = caller.name;
  spec.is_for_admin = caller.role == access::Role::kAdmin;
  return Answer(runs_.CreateRun(spec), response);
}

absl::Status RunServiceImpl::SetRetention(
    const access::Caller& caller, const v1::SetRunRetentionRequest& request,
    v1::Run& response) {
  const auto change = [&request](storage::RunRetention& retention) {
    return Apply(request.retention(), retention);
  };
  return Answer(pipeline_.runs().ChangeRetention(request.run(), caller, change),
                response);
}

grpc::ServerUnaryReactor* RunServiceImpl::GetRun(
    grpc::CallbackServerContext* context, const v1::GetRunRequest* request,
    v1::Run* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    return Answer(runs_.GetRun(request->run()), *response);
  });
}

grpc::ServerUnaryReactor* RunServiceImpl::ListRuns(
    grpc::CallbackServerContext* context, const v1::ListRunsRequest* request,
    v1::ListRunsResponse* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    return List(*request, *response);
  });
}

grpc::ServerUnaryReactor* RunServiceImpl::CreateRun(
    grpc::CallbackServerContext* context, const v1::CreateRunRequest* request,
    v1::Run* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call& call) {
    return Create(call.caller(), *request, *response);
  });
}

grpc::ServerUnaryReactor* RunServiceImpl::SealRun(
    grpc::CallbackServerContext* context, const v1::SealRunRequest* request,
    v1::Run* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call& call) {
    return Answer(pipeline_.runs().SealRun(request->run(), call.caller()),
                  *response);
  });
}

grpc::ServerUnaryReactor* RunServiceImpl::SetRunRetention(
    grpc::CallbackServerContext* context,
    const v1::SetRunRetentionRequest* request, v1::Run* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call& call) {
    return SetRetention(call.caller(), *request, *response);
  });
}

grpc::ServerUnaryReactor* RunServiceImpl::DeleteRun(
    grpc::CallbackServerContext* context, const v1::DeleteRunRequest* request,
    google::protobuf::Empty*) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call& call) {
    return pipeline_.runs().DeleteRun(request->run(), call.caller());
  });
}

}  // namespace msitd::service
