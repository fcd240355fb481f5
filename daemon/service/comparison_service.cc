// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/job/row_groups.h"
#include "daemon/query/page_token.h"
#include "daemon/query/tensor_query.h"
#include "daemon/query/time_limit.h"
#include "daemon/service/comparison_convert.h"
#include "daemon/service/comparison_row_stream.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// A page ends with the result that reaches this size, which is half of the
// default message size limit of gRPC clients.
constexpr size_t kPageBytes = size_t{2} << 20;

// Number of comparisons and rows read from the store at a time.
constexpr size_t kComparisonsAtATime = 16;
constexpr size_t kRowsAtATime = 1000;

// Maximum number of selection criteria in a request.
constexpr int kRowNumbersMax = 1000;
constexpr int kOpPatternsMax = 64;

// A page ends after scanning this many rows, or after query::kPageTimeMax, even
// if few rows were selected.
constexpr int64_t kRowsScannedMax = 100'000;

// How long a call that creates a comparison waits for its end, so that short
// comparisons need no further call.
constexpr std::chrono::milliseconds kQuickEnd{200};
// Interval between two checks whether its caller is gone.
constexpr std::chrono::milliseconds kQuickWait{20};
// Number of calls that wait at the same time. Threads must be left for other
// control calls.
constexpr int kQuickWaitsMax = 2;

constexpr std::string_view kListKey = "ListComparisons";

// Returns a key that is equal for all pages of a request.
std::string RowsKey(const v1::ListComparisonRowsRequest& request) {
  v1::ListComparisonRowsRequest key = request;
  key.clear_page_size();
  key.clear_page_token();
  return "ListComparisonRows " + key.SerializeAsString();
}

// Returns the start of a page: 0 for the first page.
absl::StatusOr<int64_t> DecodePosition(std::string_view key,
                                       std::string_view token) {
  MSITD_ASSIGN_OR_RETURN(const std::string text,
                         query::DecodePageToken(key, token));
  int64_t position = 0;
  if (text.empty()) return position;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, position);
  if (error != std::errc() || stop != end || position < 0) {
    return WithReason(
        absl::InvalidArgumentError("page_token: not given for this request"),
        ErrorReason::kPageTokenInvalid);
  }
  return position;
}

absl::Status CheckSelection(const v1::ListComparisonRowsRequest& request) {
  if (request.rows_size() > kRowNumbersMax) {
    return FieldInvalid(
        "rows", fmt::format("{} of them, at most {}", request.rows_size(),
                            kRowNumbersMax));
  }
  if (request.op_patterns_size() > kOpPatternsMax) {
    return FieldInvalid(
        "op_patterns", fmt::format("{} of them, at most {}",
                                   request.op_patterns_size(), kOpPatternsMax));
  }
  for (int i = 0; i < request.rows_size(); ++i) {
    if (request.rows(i) < 0) {
      return FieldInvalid(fmt::format("rows[{}]", i),
                          fmt::format("{} is negative", request.rows(i)));
    }
  }
  for (int i = 0; i < request.op_patterns_size(); ++i) {
    const size_t size = request.op_patterns(i).size();
    if (size == 0 || size > kOpBytesMax) {
      return FieldInvalid(
          fmt::format("op_patterns[{}]", i),
          fmt::format("{} bytes, needs 1 to {}", size, kOpBytesMax));
    }
  }
  for (int i = 0; i < request.verdicts_size(); ++i) {
    const int verdict = request.verdicts(i);
    if (verdict <= v1::VERDICT_UNSPECIFIED || verdict > v1::Verdict_MAX) {
      return FieldInvalid(fmt::format("verdicts[{}]", i),
                          fmt::format("{} is no verdict", verdict));
    }
  }
  return absl::OkStatus();
}

bool Selects(const v1::ListComparisonRowsRequest& request,
             const v1::ComparisonRow& row) {
  const auto& verdicts = request.verdicts();
  const auto& patterns = request.op_patterns();
  return (verdicts.empty() || std::find(verdicts.begin(), verdicts.end(),
                                        row.verdict()) != verdicts.end()) &&
         (patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                          [&row](const std::string& pattern) {
                                            return GlobMatch(pattern, row.op());
                                          }));
}

// Rows to read at once.
struct RowRange {
  int64_t first = 0;
  size_t count = 0;  // 0: there are no more.
};

// Returns the rows to read next, starting at `from` and at most `wanted`. If
// there are `numbers`, which are in ascending order, the rows are a contiguous
// range of them; otherwise any rows.
RowRange NextRows(const std::vector<int64_t>& numbers, int64_t from,
                  size_t wanted) {
  if (numbers.empty()) return {from, wanted};
  auto number = std::lower_bound(numbers.begin(), numbers.end(), from);
  if (number == numbers.end()) return {};
  RowRange out{*number, 1};
  for (++number; out.count < wanted && number != numbers.end() &&
                 *number == out.first + static_cast<int64_t>(out.count);
       ++number) {
    ++out.count;
  }
  return out;
}

}  // namespace

absl::Status ComparisonServiceImpl::Create(
    const Call& call, const v1::CreateComparisonRequest& request,
    v1::Comparison& response) {
  MSITD_ASSIGN_OR_RETURN(compare::ComparisonPlan plan,
                         ToPlan(request.comparison()));
  plan.owner = call.caller().name;
  plan.owner_is_admin = call.caller().role == access::Role::kAdmin;
  MSITD_ASSIGN_OR_RETURN(response,
                         jobs_.Start(request.comparison(), std::move(plan),
                                     [&call] { return call.Check(); }));
  if (!response.detach()) AwaitQuickEnd(call, response);
  return absl::OkStatus();
}

void ComparisonServiceImpl::AwaitQuickEnd(const Call& call,
                                          v1::Comparison& comparison) {
  const auto id = compare::ParseComparisonName(comparison.name()).value();
  const auto until = std::min(std::chrono::system_clock::now() + kQuickEnd,
                              call.deadline() - kQuickEnd);
  if (quick_waits_.fetch_add(1) < kQuickWaitsMax) {
    while (std::chrono::system_clock::now() < until && call.Check().ok() &&
           !jobs_.AwaitEnd(id, kQuickWait)) {
    }
  }
  quick_waits_.fetch_sub(1);
  auto latest = jobs_.Get(id);
  if (latest.ok()) comparison = std::move(latest->comparison);
}

absl::Status ComparisonServiceImpl::Plan(
    const Call& call, const v1::PlanComparisonRequest& request,
    v1::PlanComparisonResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const compare::ComparisonPlan plan,
                         ToPlan(request.comparison()));
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(const compare::ComparisonOutline outline,
                         jobs_.Outline(plan, [&] { return limit.Check(); }));
  for (const compare::ComparisonOutline::Span& span : outline.spans) {
    v1::PlanComparisonResponse::Span& out = *response.add_spans();
    out.set_rank(span.rank);
    out.set_first_token(span.first_token);
    out.set_last_token(span.last_token);
    out.set_group_count(span.group_count);
    out.set_is_whole(span.is_whole);
  }
  response.set_sampled_group_count(outline.sampled_group_count);
  response.set_sampled_pair_count(outline.sampled_pair_count);
  response.set_sampled_read_bytes(outline.sampled_read_bytes);
  response.set_golden_run_id(outline.golden_run_id);
  response.set_target_run_id(outline.target_run_id);
  return absl::OkStatus();
}

absl::Status ComparisonServiceImpl::Judge(
    const Call& call, const v1::JudgeComparisonRequest& request,
    v1::Comparison& response) {
  compare::ComparisonJobs::JudgeRequest judged;
  MSITD_ASSIGN_OR_RETURN(judged.source.id,
                         ToComparisonId(request.comparison()));
  MSITD_ASSIGN_OR_RETURN(judged.policy, ToJudgingPolicy(request.policy()));
  judged.request = request.policy();
  judged.owner = call.caller().name;
  judged.owner_is_admin = call.caller().role == access::Role::kAdmin;
  MSITD_ASSIGN_OR_RETURN(compare::ComparisonView view,
                         jobs_.Get(judged.source.id));
  judged.source.comparison = std::move(view.comparison);
  MSITD_ASSIGN_OR_RETURN(judged.source.policy,
                         ToPolicy(judged.source.comparison.policy()));
  MSITD_ASSIGN_OR_RETURN(response, jobs_.Judge(std::move(judged), [&call] {
    return call.Check();
  }));
  AwaitQuickEnd(call, response);
  return absl::OkStatus();
}

absl::Status ComparisonServiceImpl::List(
    const v1::ListComparisonsRequest& request,
    v1::ListComparisonsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  MSITD_ASSIGN_OR_RETURN(int64_t after,
                         DecodePosition(kListKey, request.page_token()));
  size_t bytes = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(std::vector<v1::Comparison> comparisons,
                           jobs_.List(after, kComparisonsAtATime));
    if (comparisons.empty()) return absl::OkStatus();
    for (v1::Comparison& comparison : comparisons) {
      if (response.comparisons_size() == page_size || bytes >= kPageBytes) {
        response.set_next_page_token(
            query::EncodePageToken(kListKey, std::to_string(after)));
        return absl::OkStatus();
      }
      MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                             ToComparisonId(comparison.name()));
      after = static_cast<int64_t>(id);
      bytes += comparison.ByteSizeLong();
      *response.add_comparisons() = std::move(comparison);
    }
  }
}

absl::Status ComparisonServiceImpl::ListRows(
    const Call& call, const v1::ListComparisonRowsRequest& request,
    v1::ListComparisonRowsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                         ToComparisonId(request.comparison()));
  MSITD_RETURN_IF_ERROR(CheckSelection(request));
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  const std::string key = RowsKey(request);
  MSITD_ASSIGN_OR_RETURN(const int64_t begin,
                         DecodePosition(key, request.page_token()));
  const auto deadline = std::chrono::steady_clock::now() + query::kPageTimeMax;
  const std::set<int64_t> numbers(request.rows().begin(), request.rows().end());
  const std::vector<int64_t> ascending(numbers.begin(), numbers.end());
  const bool takes_all =
      request.verdicts().empty() && request.op_patterns().empty();
  int64_t next = begin;
  int64_t scanned_count = 0;
  size_t bytes = 0;
  while (true) {
    MSITD_RETURN_IF_ERROR(call.Check());
    const size_t wanted =
        takes_all ? page_size - response.rows_size() + 1 : kRowsAtATime;
    const RowRange range = NextRows(ascending, next, wanted);
    if (range.count == 0) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(std::vector<v1::ComparisonRow> rows,
                           jobs_.Rows(id, range.first, range.count));
    if (rows.empty()) return absl::OkStatus();
    next = range.first;
    const bool is_late =
        scanned_count > 0 && std::chrono::steady_clock::now() >= deadline;
    for (v1::ComparisonRow& row : rows) {
      if (response.rows_size() == page_size || bytes >= kPageBytes || is_late ||
          scanned_count >= kRowsScannedMax) {
        response.set_next_page_token(
            query::EncodePageToken(key, std::to_string(next)));
        return absl::OkStatus();
      }
      ++next;
      ++scanned_count;
      if (!Selects(request, row)) continue;
      bytes += row.ByteSizeLong();
      *response.add_rows() = std::move(row);
    }
  }
}

absl::Status ComparisonServiceImpl::SummarizeRows(
    const Call& call, const v1::SummarizeComparisonRowsRequest& request,
    v1::SummarizeComparisonRowsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                         ToComparisonId(request.comparison()));
  if (request.first_row() < 0) {
    return FieldInvalid("first_row",
                        fmt::format("{} is negative", request.first_row()));
  }
  MSITD_ASSIGN_OR_RETURN(const compare::ComparisonView view, jobs_.Get(id));
  MSITD_ASSIGN_OR_RETURN(compare::RowGroups groups,
                         compare::RowGroups::Create(request, view.comparison));
  const auto deadline = std::chrono::steady_clock::now() + query::kPageTimeMax;
  const int64_t row_count = compare::RowCount(view.comparison);
  int64_t next = request.first_row();
  while (next < row_count && groups.size_bytes() < kPageBytes) {
    MSITD_RETURN_IF_ERROR(call.Check());
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<v1::ComparisonRow> rows,
        jobs_.Rows(id, next,
                   std::min<uint64_t>(kRowsAtATime, row_count - next)));
    if (rows.empty()) break;
    for (const v1::ComparisonRow& row : rows) groups.Add(row);
    next += static_cast<int64_t>(rows.size());
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  groups.MoveTo(response);
  response.set_next_row(next);
  response.set_row_count(row_count);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::CreateComparison(
    grpc::CallbackServerContext* context,
    const v1::CreateComparisonRequest* request, v1::Comparison* response) {
  return UnaryCall::Start(pools_.control, *context,
                          [=, this](const Call& call) {
                            return Create(call, *request, *response);
                          });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::PlanComparison(
    grpc::CallbackServerContext* context,
    const v1::PlanComparisonRequest* request,
    v1::PlanComparisonResponse* response) {
  return UnaryCall::Start(
      pools_.queries, *context,
      [=, this](const Call& call) { return Plan(call, *request, *response); });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::JudgeComparison(
    grpc::CallbackServerContext* context,
    const v1::JudgeComparisonRequest* request, v1::Comparison* response) {
  return UnaryCall::Start(
      pools_.control, *context,
      [=, this](const Call& call) { return Judge(call, *request, *response); });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::GetComparison(
    grpc::CallbackServerContext* context,
    const v1::GetComparisonRequest* request, v1::Comparison* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call&) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                               ToComparisonId(request->comparison()));
        MSITD_ASSIGN_OR_RETURN(compare::ComparisonView view, jobs_.Get(id));
        *response = std::move(view.comparison);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::ListComparisons(
    grpc::CallbackServerContext* context,
    const v1::ListComparisonsRequest* request,
    v1::ListComparisonsResponse* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    return List(*request, *response);
  });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::CancelComparison(
    grpc::CallbackServerContext* context,
    const v1::CancelComparisonRequest* request, v1::Comparison* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call&) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                               ToComparisonId(request->comparison()));
        MSITD_ASSIGN_OR_RETURN(*response, jobs_.Cancel(id));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::DeleteComparison(
    grpc::CallbackServerContext* context,
    const v1::DeleteComparisonRequest* request, google::protobuf::Empty*) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call&) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                               ToComparisonId(request->comparison()));
        return jobs_.Delete(id);
      });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::ListComparisonRows(
    grpc::CallbackServerContext* context,
    const v1::ListComparisonRowsRequest* request,
    v1::ListComparisonRowsResponse* response) {
  return UnaryCall::Start(pools_.queries, *context,
                          [=, this](const Call& call) {
                            return ListRows(call, *request, *response);
                          });
}

grpc::ServerWriteReactor<v1::StreamComparisonRowsResponse>*
ComparisonServiceImpl::StreamComparisonRows(
    grpc::CallbackServerContext* context,
    const v1::StreamComparisonRowsRequest* request) {
  return StreamCall<v1::StreamComparisonRowsResponse>::Start(
      pools_.queries, *context, StreamRows(jobs_, *request));
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::SummarizeComparisonRows(
    grpc::CallbackServerContext* context,
    const v1::SummarizeComparisonRowsRequest* request,
    v1::SummarizeComparisonRowsResponse* response) {
  return UnaryCall::Start(pools_.queries, *context,
                          [=, this](const Call& call) {
                            return SummarizeRows(call, *request, *response);
                          });
}

grpc::ServerUnaryReactor* ComparisonServiceImpl::AddRowMetrics(
    grpc::CallbackServerContext* context,
    const v1::AddRowMetricsRequest* request, v1::Comparison* response) {
  return UnaryCall::Start(
      pools_.queries, *context, [=, this](const Call&) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                               ToComparisonId(request->comparison()));
        MSITD_ASSIGN_OR_RETURN(*response,
                               jobs_.AddRowMetrics(id, request->rows()));
        return absl::OkStatus();
      });
}

}  // namespace msitd::service
