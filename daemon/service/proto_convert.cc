// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/proto_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "protos/base/limits.h"
#include "protos/base/request.h"
#include "protos/base/resource_name.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"
#include "storage/face/run_id_text.h"

namespace msitd::service {
namespace {

static_assert(static_cast<int>(DType::kBits4x2) == v1::D_TYPE_BITS4X2);
static_assert(v1::DType_MAX + 1 == kDTypeCount);
static_assert(static_cast<int>(Io::kState) == v1::IO_STATE);
static_assert(v1::Io_MAX + 1 == kIoCount);
static_assert(static_cast<int>(RecordKind::kStatistics) ==
              v1::RECORD_KIND_STATISTICS);
static_assert(v1::RecordKind_MAX + 1 == kRecordKindCount);

bool IsName(std::string_view text) {
  return !text.empty() && text.find('\0') == std::string_view::npos &&
         IsValidUtf8(text);
}

absl::Status CheckCount(std::string_view field, int count, size_t max) {
  if (static_cast<size_t>(count) <= max) return absl::OkStatus();
  return FieldInvalid(
      field, fmt::format("{} values, at most {} are taken", count, max));
}

absl::Status AddRanks(const v1::TensorFilter& filter, Selector& out) {
  MSITD_RETURN_IF_ERROR(
      CheckCount("filter.ranks", filter.ranks_size(), Selector::kRanksMax));
  for (int i = 0; i < filter.ranks_size(); ++i) {
    const int32_t rank = filter.ranks(i);
    if (rank < 0 || rank > kRankMax) {
      return FieldInvalid(fmt::format("filter.ranks[{}]", i),
                          fmt::format("{} is not in 0..{}", rank, kRankMax));
    }
    out.ranks.push_back(rank);
  }
  return absl::OkStatus();
}

absl::Status AddTokens(const v1::TensorFilter& filter, Selector& out) {
  MSITD_RETURN_IF_ERROR(CheckCount("filter.tokens", filter.tokens_size(),
                                   Selector::kTokenRangesMax));
  for (int i = 0; i < filter.tokens_size(); ++i) {
    const v1::TokenRange& range = filter.tokens(i);
    if (range.first() < 0 || range.first() > kTokenMax ||
        range.last() < range.first()) {
      return FieldInvalid(fmt::format("filter.tokens[{}]", i),
                          fmt::format("{}..{} is no range inside 0..{}",
                                      range.first(), range.last(), kTokenMax));
    }
    out.tokens.push_back({range.first(), std::min(range.last(), kTokenMax)});
  }
  return absl::OkStatus();
}

template <typename Texts>
absl::Status AddTexts(std::string_view field, const Texts& texts,
                      size_t count_max, size_t bytes_max,
                      std::vector<std::string>& out) {
  MSITD_RETURN_IF_ERROR(CheckCount(field, texts.size(), count_max));
  for (int i = 0; i < texts.size(); ++i) {
    const std::string& text = texts.Get(i);
    if (!IsName(text) || text.size() > bytes_max) {
      return FieldInvalid(
          fmt::format("{}[{}]", field, i),
          fmt::format("not 1 to {} bytes of UTF-8 without NUL", bytes_max));
    }
    out.push_back(text);
  }
  return absl::OkStatus();
}

absl::Status AddIos(const v1::TensorFilter& filter, Selector& out) {
  // Repeating an io does not select more, so this limit is sufficient.
  MSITD_RETURN_IF_ERROR(
      CheckCount("filter.ios", filter.ios_size(), 4 * kIoCount));
  for (int i = 0; i < filter.ios_size(); ++i) {
    const int number = filter.ios(i);
    const Io io = static_cast<Io>(number);
    if (number <= 0 || number >= kIoCount) {
      return FieldInvalid(fmt::format("filter.ios[{}]", i),
                          fmt::format("{} is no side of an op", number));
    }
    if (std::find(out.ios.begin(), out.ios.end(), io) == out.ios.end()) {
      out.ios.push_back(io);
    }
  }
  return absl::OkStatus();
}

absl::Status AddKinds(const v1::TensorFilter& filter, Selector& out) {
  // Repeating a kind does not select more, so this limit is sufficient.
  MSITD_RETURN_IF_ERROR(
      CheckCount("filter.kinds", filter.kinds_size(), 4 * kRecordKindCount));
  for (int i = 0; i < filter.kinds_size(); ++i) {
    const int number = filter.kinds(i);
    const auto kind = static_cast<RecordKind>(number);
    if (number < 0 || number >= kRecordKindCount) {
      return FieldInvalid(fmt::format("filter.kinds[{}]", i),
                          fmt::format("{} is no kind of record", number));
    }
    if (std::find(out.kinds.begin(), out.kinds.end(), kind) ==
        out.kinds.end()) {
      out.kinds.push_back(kind);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckName(std::string_view what, std::string_view name,
                       size_t bytes_max) {
  if (name.size() > bytes_max) {
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "the {} has {} bytes, at most {} are taken",
                                 what, name.size(), bytes_max),
                      ErrorReason::kNameTooLong);
  }
  if (!IsName(name)) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "the {} is empty or no UTF-8 without NUL", what),
        ErrorReason::kNameInvalid);
  }
  return absl::OkStatus();
}

absl::Status CheckRunName(std::string_view name) {
  return CheckName("run name", name, kRunNameBytesMax);
}

absl::StatusOr<int> ToPageSize(int32_t page_size) {
  if (page_size < 0) {
    return FieldInvalid("page_size", fmt::format("{} is negative", page_size));
  }
  if (page_size == 0) return kPageSizeDefault;
  return std::min<int>(page_size, kPageSizeMax);
}

absl::StatusOr<Selector> ToSelector(const v1::TensorFilter& filter) {
  Selector out;
  MSITD_RETURN_IF_ERROR(AddRanks(filter, out));
  MSITD_RETURN_IF_ERROR(AddTexts("filter.devices", filter.devices(),
                                 Selector::kDevicesMax, kDeviceBytesMax,
                                 out.devices));
  MSITD_RETURN_IF_ERROR(AddTokens(filter, out));
  MSITD_RETURN_IF_ERROR(AddTexts("filter.op_patterns", filter.op_patterns(),
                                 Selector::kOpPatternsMax, kOpBytesMax,
                                 out.op_patterns));
  MSITD_RETURN_IF_ERROR(AddIos(filter, out));
  MSITD_RETURN_IF_ERROR(AddKinds(filter, out));
  MSITD_RETURN_IF_ERROR(AddTexts("filter.requests", filter.requests(),
                                 Selector::kRequestsMax, kRequestIdBytesMax,
                                 out.requests));
  return out;
}

void ToProto(const Selector& selector, v1::TensorFilter& out) {
  out.mutable_ranks()->Add(selector.ranks.begin(), selector.ranks.end());
  for (const std::string& device : selector.devices) out.add_devices(device);
  for (const TokenRange& range : selector.tokens) {
    v1::TokenRange& tokens = *out.add_tokens();
    tokens.set_first(range.first);
    tokens.set_last(range.last);
  }
  for (const std::string& op : selector.op_patterns) out.add_op_patterns(op);
  for (const Io io : selector.ios) out.add_ios(static_cast<v1::Io>(io));
  for (const RecordKind kind : selector.kinds) {
    out.add_kinds(static_cast<v1::RecordKind>(kind));
  }
  for (const std::string& request : selector.requests) {
    out.add_requests(request);
  }
}

void ToProto(int64_t time_ns, google::protobuf::Timestamp& out) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  out.set_seconds(time_ns / kNsPerSecond);
  out.set_nanos(static_cast<int32_t>(time_ns % kNsPerSecond));
}

void ToProto(const Summary& summary, v1::Summary& out) {
  out.set_count(static_cast<int64_t>(summary.count));
  out.set_nan_count(static_cast<int64_t>(summary.nan_count));
  out.set_positive_infinity_count(
      static_cast<int64_t>(summary.positive_infinity_count));
  out.set_negative_infinity_count(
      static_cast<int64_t>(summary.negative_infinity_count));
  out.set_zero_count(static_cast<int64_t>(summary.zero_count));
  if (summary.has_extremes()) {
    out.set_min(summary.min);
    out.set_max(summary.max);
    out.set_abs_max(summary.abs_max());
  }
  out.set_sum(summary.sum);
  // A sum that exceeds the range of double has no mean.
  if (summary.finite_count() > 0 && std::isfinite(summary.mean())) {
    out.set_mean(summary.mean());
  }
  out.set_l1_norm(summary.l1);
  out.set_l2_norm(summary.l2_norm());
}

void ToProto(const storage::TensorInfo& tensor, v1::Tensor& out) {
  const TensorKey& key = tensor.key;
  out.set_name(FormatTensorName(key));
  out.set_run(key.run);
  out.set_rank(key.rank);
  out.set_device(key.device);
  out.set_token(key.token);
  out.set_op(key.op);
  out.set_call(key.call);
  out.set_io(static_cast<v1::Io>(key.io));
  out.set_index(key.index);
  out.set_dtype(static_cast<v1::DType>(tensor.dtype));
  out.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  out.set_size_bytes(static_cast<int64_t>(tensor.tensor_bytes));
  out.set_sequence(static_cast<int64_t>(tensor.sequence));
  ToProto(tensor.summary, *out.mutable_summary());
  out.set_hash(HashText(tensor.hash));
  out.set_has_bytes(tensor.has_bytes);
  out.set_placement(tensor.placement);
  out.set_has_sample(tensor.has_sample);
  out.set_claimed(tensor.is_claimed);
  out.set_kind(static_cast<v1::RecordKind>(tensor.kind));
  if (tensor.requires_grad) out.set_requires_grad(*tensor.requires_grad);
  out.set_value(tensor.value);
  out.set_stack(tensor.stack);
  if (tensor.alias_of.has_value()) {
    TensorKey original = key;
    original.op = tensor.alias_of->op;
    original.call = tensor.alias_of->call;
    original.io = tensor.alias_of->io;
    original.index = tensor.alias_of->index;
    out.set_alias_of(FormatTensorName(original));
  }
}

void ToProto(const storage::RunRetention& retention, v1::Retention& out) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const storage::RetentionLimits& limits = retention.limits;
  out.set_pinned(retention.pinned);
  out.set_size_bytes_max(static_cast<int64_t>(limits.bytes_max));
  out.mutable_age_max()->set_seconds(limits.age_max_ns / kNsPerSecond);
  out.mutable_age_max()->set_nanos(
      static_cast<int32_t>(limits.age_max_ns % kNsPerSecond));
  out.set_token_count(limits.token_count);
}

void ToProto(const storage::RunInfo& run, v1::Run& out) {
  out.set_name(run.spec.name);
  out.set_id(storage::RunIdText(run));
  out.set_world_size(run.spec.world_size);
  for (const auto& [key, value] : run.spec.labels) {
    (*out.mutable_labels())[key] = value;
  }
  out.set_owner(run.spec.owner);
  out.set_state(run.spec.restoring ? v1::Run::RESTORING
                : run.sealed       ? v1::Run::SEALED
                                   : v1::Run::ACTIVE);
  ToProto(run.create_time_ns, *out.mutable_create_time());
  if (run.sealed) ToProto(run.seal_time_ns, *out.mutable_seal_time());
  v1::RunCounters& counters = *out.mutable_counters();
  const storage::RunCounters& from = run.counters;
  counters.set_tensor_count(static_cast<int64_t>(from.tensor_count));
  counters.set_size_bytes(static_cast<int64_t>(from.payload_bytes));
  counters.set_duplicate_count(static_cast<int64_t>(from.duplicate_count));
  counters.set_conflict_count(static_cast<int64_t>(from.conflict_count));
  counters.set_dropped_count(static_cast<int64_t>(from.dropped_count));
  counters.set_expired_size_bytes(static_cast<int64_t>(from.expired_bytes));
  counters.set_missing_size_bytes(static_cast<int64_t>(from.missing_bytes));
  counters.set_unread_place_count(
      static_cast<int64_t>(from.unread_place_count));
  counters.set_truncated_count(static_cast<int64_t>(from.truncated_count));
  counters.set_value_count(static_cast<int64_t>(from.value_count));
  counters.set_dangling_count(static_cast<int64_t>(from.dangling_count));
  counters.set_statistics_count(static_cast<int64_t>(from.statistics_count));
  counters.set_document_count(static_cast<int64_t>(from.document_count));
  ToProto(run.retention, *out.mutable_retention());
}

}  // namespace msitd::service
