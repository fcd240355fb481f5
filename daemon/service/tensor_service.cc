// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/tensor_service.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/compare/job/run_ranks_message.h"
#include "daemon/origin/find_origin.h"
#include "daemon/query/page_token.h"
#include "daemon/query/small_tensors.h"
#include "daemon/query/tensor_groups.h"
#include "daemon/query/tensor_histogram.h"
#include "daemon/query/tensor_query.h"
#include "daemon/query/tensor_reader.h"
#include "daemon/query/time_limit.h"
#include "daemon/query/token_requests.h"
#include "daemon/service/origin_convert.h"
#include "daemon/service/proto_convert.h"
#include "daemon/service/tensor_condition.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

absl::StatusOr<TensorKey> ToKey(std::string_view name) {
  std::optional<TensorKey> key = ParseTensorName(name);
  if (!key.has_value()) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "name: '{}' is not the name of a tensor", name),
        ErrorReason::kNameInvalid);
  }
  return *std::move(key);
}

void AddRequests(const std::vector<query::TokenRequest>& requests,
                 v1::Tensor& out) {
  for (const query::TokenRequest& request : requests) {
    v1::TokenRequest& added = *out.add_requests();
    added.set_id(request.id);
    added.set_rows(request.rows);
  }
}

// Returns a key that is equal for all pages of a request.
std::string RequestKey(const v1::ListTensorsRequest& request) {
  v1::ListTensorsRequest key = request;
  key.clear_page_size();
  key.clear_page_token();
  return "ListTensors " + key.SerializeAsString();
}

absl::StatusOr<query::GroupBy> ToGroupBy(int group_by) {
  switch (group_by) {
    case v1::SummarizeTensorsRequest::GROUP_BY_UNSPECIFIED:
      return query::GroupBy::kNone;
    case v1::SummarizeTensorsRequest::RANK:
      return query::GroupBy::kRank;
    case v1::SummarizeTensorsRequest::TOKEN:
      return query::GroupBy::kToken;
    case v1::SummarizeTensorsRequest::OP:
      return query::GroupBy::kOp;
    case v1::SummarizeTensorsRequest::DEVICE:
      return query::GroupBy::kDevice;
    default:
      return FieldInvalid("group_by",
                          fmt::format("{} is no such value", group_by));
  }
}

// Number of bins if a request does not specify it.
constexpr int kHistogramBinsDefault = 64;

absl::StatusOr<query::HistogramSpec> ToHistogramSpec(
    const v1::ComputeHistogramRequest& request) {
  query::HistogramSpec spec;
  spec.bin_count =
      request.bin_count() == 0 ? kHistogramBinsDefault : request.bin_count();
  if (spec.bin_count < 0 || spec.bin_count > compute::kHistogramBinsMax) {
    return FieldInvalid("bin_count",
                        fmt::format("{} is not in 0..{}", spec.bin_count,
                                    compute::kHistogramBinsMax));
  }
  const auto not_finite = [](const char* field, double value) {
    return FieldInvalid(field, fmt::format("{} is not finite", value));
  };
  if (request.has_low()) {
    if (!std::isfinite(request.low())) return not_finite("low", request.low());
    spec.low = request.low();
  }
  if (request.has_high()) {
    if (!std::isfinite(request.high())) {
      return not_finite("high", request.high());
    }
    spec.high = request.high();
  }
  if (spec.low.has_value() && spec.high.has_value() && *spec.high < *spec.low) {
    return FieldInvalid("high", fmt::format("{} is below low, which is {}",
                                            *spec.high, *spec.low));
  }
  return spec;
}

// Streams the bytes of one tensor. Opens the tensor with the first message, on
// the pool.
class PieceSource final : public StreamSource<v1::ReadTensorResponse> {
 public:
  PieceSource(storage::RunReaders& readers,
              const v1::ReadTensorRequest& request)
      : readers_(readers), request_(request) {}

  absl::StatusOr<StreamStep> Next(const Call& call,
                                  v1::ReadTensorResponse& message) override {
    if (!reader_.has_value()) {
      MSITD_ASSIGN_OR_RETURN(const TensorKey key, ToKey(request_.name()));
      MSITD_ASSIGN_OR_RETURN(
          reader_,
          query::TensorReader::Open(
              readers_, key, {request_.offset_bytes(), request_.limit_bytes()},
              request_.sample() ? query::ReadWhat::kSample
                                : query::ReadWhat::kTensor));
    }
    query::TensorReader::Piece piece;
    MSITD_ASSIGN_OR_RETURN(
        const bool found,
        reader_->Next([&call] { return call.Check(); }, piece));
    if (!found) return StreamStep::kEnd;
    message.set_offset_bytes(static_cast<int64_t>(piece.offset));
    message.set_data(piece.data.data(), piece.data.size());
    return StreamStep::kMessage;
  }

 private:
  storage::RunReaders& readers_;
  const v1::ReadTensorRequest request_;
  std::optional<query::TensorReader> reader_;
};

// Maximum number of tensors in a ReadTensors request.
constexpr int kReadTensorsMax = 1000;

// Streams small tensors. Opens the run with the first message, on the pool.
class SmallTensorSource final : public StreamSource<v1::ReadTensorsResponse> {
 public:
  SmallTensorSource(storage::RunReaders& readers,
                    const v1::ReadTensorsRequest& request)
      : readers_(readers), request_(request) {}

  absl::StatusOr<StreamStep> Next(const Call& call,
                                  v1::ReadTensorsResponse& message) override {
    if (!is_open_) MSITD_RETURN_IF_ERROR(Open());
    uint64_t bytes = 0;
    while (reader_.has_value()) {
      if (!is_pending_) {
        MSITD_ASSIGN_OR_RETURN(
            is_pending_,
            reader_->Next([&call] { return call.Check(); }, pending_));
        if (!is_pending_) break;
      }
      bytes += pending_.data.size();
      if (bytes > query::TensorReader::kPieceBytesMax) break;
      auto& tensor = *message.add_tensors();
      tensor.set_position(static_cast<int32_t>(pending_.position));
      tensor.set_data(pending_.data.data(), pending_.data.size());
      is_pending_ = false;
    }
    return message.tensors().empty() ? StreamStep::kEnd : StreamStep::kMessage;
  }

 private:
  absl::Status Open() {
    const int count = request_.names_size();
    if (count < 1 || count > kReadTensorsMax) {
      return FieldInvalid(
          "names", fmt::format("{} is not in 1..{}", count, kReadTensorsMax));
    }
    std::vector<TensorKey> keys;
    for (const std::string& name : request_.names()) {
      MSITD_ASSIGN_OR_RETURN(keys.emplace_back(), ToKey(name));
      if (keys.back().run != keys[0].run) {
        return FieldInvalid("names", "they are of several runs");
      }
    }
    auto run = query::OpenRunOf(readers_, keys[0]);
    is_open_ = true;
    // If the run does not exist, none of its tensors does.
    if (absl::IsNotFound(run.status())) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(run.status());
    reader_.emplace(*std::move(run), std::move(keys));
    return absl::OkStatus();
  }

  storage::RunReaders& readers_;
  const v1::ReadTensorsRequest request_;
  bool is_open_ = false;
  std::optional<query::SmallTensors> reader_;
  // If is_pending_, a tensor that was read but is not part of a message yet.
  query::SmallTensors::Tensor pending_;
  bool is_pending_ = false;
};

}  // namespace

absl::Status TensorServiceImpl::Get(const Call& call,
                                    const v1::GetTensorRequest& request,
                                    v1::Tensor& response) {
  MSITD_ASSIGN_OR_RETURN(const TensorKey key, ToKey(request.name()));
  MSITD_ASSIGN_OR_RETURN(const auto run, query::OpenRunOf(readers_, key));
  MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo tensor, run->GetTensor(key));
  ToProto(tensor, response);
  query::TokenRequests requests(*run);
  MSITD_ASSIGN_OR_RETURN(
      const auto* const found,
      requests.All(key.rank, key.token, [&call] { return call.Check(); }));
  AddRequests(*found, response);
  return absl::OkStatus();
}

absl::Status TensorServiceImpl::List(const Call& call,
                                     const v1::ListTensorsRequest& request,
                                     v1::ListTensorsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const Selector selector, ToSelector(request.filter()));
  MSITD_ASSIGN_OR_RETURN(const TensorCondition condition,
                         TensorCondition::Parse(request.where()));
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  const std::string request_key = RequestKey(request);
  MSITD_ASSIGN_OR_RETURN(
      const std::string position,
      query::DecodePageToken(request_key, request.page_token()));
  MSITD_ASSIGN_OR_RETURN(const auto run, readers_.OpenRun(request.run()));
  // Read before the tensors, so that a rank that appears in the meantime is not
  // counted.
  MSITD_ASSIGN_OR_RETURN(const storage::RunRanks ranks,
                         storage::FindRunRanks(*run, selector.ranks));
  compare::ToMessage(ranks, response);
  std::vector<std::pair<int32_t, int64_t>> ranks_and_tokens;
  MSITD_ASSIGN_OR_RETURN(const query::TensorPage page,
                         query::ListTensors(
                             *run, selector, position, page_size,
                             [&](const storage::TensorInfo& tensor) {
                               return condition.Holds(tensor);
                             },
                             [&](const storage::TensorInfo& tensor) {
                               ToProto(tensor, *response.add_tensors());
                               if (selector.requests.empty()) return;
                               ranks_and_tokens.emplace_back(tensor.key.rank,
                                                             tensor.key.token);
                             },
                             [&call] { return call.Check(); }));
  query::TokenRequests requests(*run);
  for (size_t i = 0; i < ranks_and_tokens.size(); ++i) {
    const auto [rank, token] = ranks_and_tokens[i];
    MSITD_ASSIGN_OR_RETURN(const auto* const found,
                           requests.Of(rank, token, selector.requests));
    AddRequests(*found, *response.mutable_tensors(static_cast<int>(i)));
  }
  response.set_incomplete_count(static_cast<int64_t>(page.incomplete_count));
  if (!page.position.empty()) {
    response.set_next_page_token(
        query::EncodePageToken(request_key, page.position));
  }
  return absl::OkStatus();
}

absl::Status TensorServiceImpl::Summarize(
    const Call& call, const v1::SummarizeTensorsRequest& request,
    v1::SummarizeTensorsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const Selector selector, ToSelector(request.filter()));
  MSITD_ASSIGN_OR_RETURN(const query::GroupBy group_by,
                         ToGroupBy(request.group_by()));
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(
      const auto run, readers_.OpenRunAt({request.source(), request.run()},
                                         [&limit] { return limit.Check(); }));
  MSITD_ASSIGN_OR_RETURN(const storage::RunRanks ranks,
                         storage::FindRunRanks(*run, selector.ranks));
  compare::ToMessage(ranks, response);
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<query::Group> groups,
      query::SummarizeTensors(*run, selector, group_by,
                              [&limit] { return limit.Check(); }));
  for (const query::Group& group : groups) {
    v1::SummarizeTensorsResponse::Group& out = *response.add_groups();
    out.set_key(group.key);
    out.set_tensor_count(static_cast<int64_t>(group.tensor_count));
    out.set_size_bytes(static_cast<int64_t>(group.tensor_bytes));
    ToProto(group.summary, *out.mutable_summary());
  }
  return absl::OkStatus();
}

absl::Status TensorServiceImpl::Histogram(
    const Call& call, const v1::ComputeHistogramRequest& request,
    v1::Histogram& response) {
  MSITD_ASSIGN_OR_RETURN(const TensorKey key, ToKey(request.name()));
  MSITD_ASSIGN_OR_RETURN(const query::HistogramSpec spec,
                         ToHistogramSpec(request));
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(const compute::Histogram histogram,
                         query::ComputeHistogram(readers_, key, spec, [&limit] {
                           return limit.Check();
                         }));
  response.set_low(histogram.low);
  response.set_high(histogram.high);
  for (const uint64_t count : histogram.counts) {
    response.add_counts(static_cast<int64_t>(count));
  }
  response.set_below_count(static_cast<int64_t>(histogram.below_count));
  response.set_above_count(static_cast<int64_t>(histogram.above_count));
  response.set_nan_count(static_cast<int64_t>(histogram.nan_count));
  return absl::OkStatus();
}

absl::Status TensorServiceImpl::Origin(const Call& call,
                                       const v1::FindOriginRequest& request,
                                       v1::FindOriginResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const origin::Condition condition,
                         ToCondition(request));
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  const auto check = [&limit] { return limit.Check(); };
  MSITD_ASSIGN_OR_RETURN(
      const auto run,
      readers_.OpenRunAt({request.source(), request.run()}, check));
  const auto* const activity = request.source().empty() ? &activity_ : nullptr;
  MSITD_ASSIGN_OR_RETURN(const origin::OriginAnswer answer,
                         origin::FindOrigin(*run, condition, activity, check));
  ToProto(answer, run->name(), response);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TensorServiceImpl::GetTensor(
    grpc::CallbackServerContext* context, const v1::GetTensorRequest* request,
    v1::Tensor* response) {
  return UnaryCall::Start(
      pools_.queries, *context,
      [=, this](const Call& call) { return Get(call, *request, *response); });
}

grpc::ServerUnaryReactor* TensorServiceImpl::ListTensors(
    grpc::CallbackServerContext* context, const v1::ListTensorsRequest* request,
    v1::ListTensorsResponse* response) {
  return UnaryCall::Start(
      pools_.queries, *context,
      [=, this](const Call& call) { return List(call, *request, *response); });
}

grpc::ServerWriteReactor<v1::ReadTensorResponse>* TensorServiceImpl::ReadTensor(
    grpc::CallbackServerContext* context,
    const v1::ReadTensorRequest* request) {
  return StreamCall<v1::ReadTensorResponse>::Start(
      pools_.queries, *context,
      std::make_unique<PieceSource>(readers_, *request));
}

grpc::ServerWriteReactor<v1::ReadTensorsResponse>*
TensorServiceImpl::ReadTensors(grpc::CallbackServerContext* context,
                               const v1::ReadTensorsRequest* request) {
  return StreamCall<v1::ReadTensorsResponse>::Start(
      pools_.queries, *context,
      std::make_unique<SmallTensorSource>(readers_, *request));
}

grpc::ServerUnaryReactor* TensorServiceImpl::SummarizeTensors(
    grpc::CallbackServerContext* context,
    const v1::SummarizeTensorsRequest* request,
    v1::SummarizeTensorsResponse* response) {
  return UnaryCall::Start(pools_.reductions, *context,
                          [=, this](const Call& call) {
                            return Summarize(call, *request, *response);
                          });
}

grpc::ServerUnaryReactor* TensorServiceImpl::ComputeHistogram(
    grpc::CallbackServerContext* context,
    const v1::ComputeHistogramRequest* request, v1::Histogram* response) {
  return UnaryCall::Start(pools_.reductions, *context,
                          [=, this](const Call& call) {
                            return Histogram(call, *request, *response);
                          });
}

grpc::ServerUnaryReactor* TensorServiceImpl::FindOrigin(
    grpc::CallbackServerContext* context, const v1::FindOriginRequest* request,
    v1::FindOriginResponse* response) {
  return UnaryCall::Start(pools_.reductions, *context,
                          [=, this](const Call& call) {
                            return Origin(call, *request, *response);
                          });
}

}  // namespace msitd::service
