// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/node_service.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/compute/metric_table.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/query/page_token.h"
#include "daemon/query/tensor_reader.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/proto_convert.h"
#include "daemon/service/storage_state.h"
#include "protos/chunk/chunk_format.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

v1::Metric ToProto(const compute::MetricInfo& metric) {
  v1::Metric out;
  out.set_name(std::string(metric.name));
  out.set_direction(metric.higher_is_better ? v1::Metric::HIGHER_IS_BETTER
                                            : v1::Metric::LOWER_IS_BETTER);
  out.set_unit(std::string(metric.unit));
  switch (metric.family) {
    case compute::MetricFamily::kFused:
      out.set_family(v1::Metric::FUSED);
      break;
    case compute::MetricFamily::kDerived:
      out.set_family(v1::Metric::DERIVED);
      break;
    case compute::MetricFamily::kElement:
      out.set_family(v1::Metric::ELEMENT);
      break;
  }
  out.set_in_default_columns(metric.in_default_columns);
  return out;
}

void SetCapabilities(std::string_view version, v1::Capabilities& out) {
  out.set_version(std::string(version));
  out.set_chunk_version(chunk::kVersion);
  out.set_chunk_size_bytes_max(ingest::BufferPool::kBufferBytesMax);
  out.set_read_piece_bytes_max(query::TensorReader::kPieceBytesMax);
  for (const compute::MetricInfo& metric : compute::MetricTable()) {
    out.add_metrics(std::string(metric.name));
    *out.add_metric_table() = ToProto(metric);
  }
  out.set_simd_target(std::string(compute::SimdTargetName()));
}

int64_t Signed(uint64_t n) { return static_cast<int64_t>(n); }

void SetDuration(std::chrono::steady_clock::duration duration,
                 google::protobuf::Duration& out) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const int64_t ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  out.set_seconds(ns / kNsPerSecond);
  out.set_nanos(static_cast<int32_t>(ns % kNsPerSecond));
}

void SetVerification(const storage::VerifyStats& verify,
                     const std::string& error, v1::Verification& out) {
  out.set_frame_count(Signed(verify.frame_count));
  out.set_size_bytes(Signed(verify.bytes));
  out.set_remaining_size_bytes(Signed(verify.remaining_bytes));
  if (verify.round_end_ns != 0) {
    service::ToProto(verify.round_end_ns, *out.mutable_round_end_time());
  }
  out.set_finding_count(Signed(verify.finding_count));
  out.set_error(error);
  for (const storage::VerifyFinding& finding : verify.findings) {
    v1::VerificationFinding& one = *out.add_findings();
    one.set_segment(finding.segment);
    one.set_offset_bytes(Signed(finding.offset));
    one.set_run(finding.run);
    one.set_rank(finding.rank);
    one.set_may_be_producer(finding.may_be_producer);
    one.set_problem(finding.problem);
  }
}

void SetStream(const ingest::StreamStats& stream, v1::Stream& out) {
  out.set_run(stream.spec.run);
  out.set_rank(stream.spec.rank);
  out.set_user_agent(stream.spec.user_agent);
  out.set_shares_memory(stream.spec.shares_memory);
  SetDuration(stream.age, *out.mutable_age());
  out.set_committed_chunk_count(Signed(stream.committed_chunk_count));
  out.set_committed_record_count(Signed(stream.committed_record_count));
  out.set_committed_size_bytes(Signed(stream.committed_bytes));
  out.set_in_flight_size_bytes(Signed(stream.in_flight_bytes));
  out.set_ring_size_bytes(Signed(stream.ring_bytes));
  out.set_ring_used_bytes(Signed(stream.ring_used_bytes));
  out.set_seen_count(Signed(stream.coverage.seen_count));
  out.set_filtered_count(Signed(stream.coverage.filtered_count));
  out.set_dropped_count(Signed(stream.coverage.dropped_count));
  out.set_truncated_count(Signed(stream.coverage.truncated_count));
  out.set_degraded_count(Signed(stream.coverage.degraded_count));
  if (stream.coverage.open_ns == 0) return;
  SetDuration(std::chrono::nanoseconds(stream.coverage.recording_ns),
              *out.mutable_recording_duration());
  SetDuration(std::chrono::nanoseconds(stream.coverage.open_ns),
              *out.mutable_open_duration());
}

constexpr std::string_view kListKey = "ListStreams";

using Position = std::optional<std::pair<std::string, int32_t>>;

// Parses `rank@run`; returns nullopt for an empty text.
absl::StatusOr<Position> ParsePosition(std::string_view text) {
  if (text.empty()) return Position();
  const size_t at = text.find('@');
  int32_t rank = 0;
  const char* const end = text.data() + (at == std::string_view::npos ? 0 : at);
  const auto [parsed, error] = std::from_chars(text.data(), end, rank);
  if (error != std::errc{} || parsed != end) {
    return WithReason(
        absl::InvalidArgumentError("the page token is none of ListStreams"),
        ErrorReason::kPageTokenInvalid);
  }
  return Position(std::in_place, text.substr(at + 1), rank);
}

void SetArchives(const archive::ArchiveCounts& counts, v1::ArchiveStatus& out) {
  out.set_pending_count(static_cast<int64_t>(counts.pending_count));
  out.set_running_count(static_cast<int64_t>(counts.running_count));
  out.set_archived_count(static_cast<int64_t>(counts.archived_count));
  out.set_failed_count(static_cast<int64_t>(counts.failed_count));
  out.set_incomplete_count(static_cast<int64_t>(counts.incomplete_count));
  out.set_error(counts.error);
  out.set_sent_size_bytes(static_cast<int64_t>(counts.sent_bytes));
}

void SetMissing(const storage::MissingSegments& missing, v1::NodeStatus& out) {
  out.set_missing_segment_count(Signed(missing.count));
  out.set_missing_size_bytes(Signed(missing.bytes));
  for (const storage::MissingSegment& segment : missing.first) {
    v1::MissingSegment& one = *out.add_missing_segments();
    one.set_segment(segment.segment);
    one.set_size_bytes(Signed(segment.bytes));
    for (const std::string& run : segment.runs) one.add_runs(run);
  }
}

// The error of the last write takes precedence over those of the store.
void SetStorageState(const ingest::IngestStats& ingest,
                     const storage::StoreStats& store, v1::NodeStatus& out) {
  out.set_storage_state(StorageStateOf(ingest.storage_state, store));
  out.set_storage_error(ingest.storage_error);
  if (ingest.storage_state != ingest::StorageState::kOk) return;
  if (!store.refusal.empty()) {
    out.set_storage_error(store.refusal);
  } else if (store.missing.count > 0) {
    out.set_storage_error(fmt::format(
        "{} segment files are missing, the first is {}: {} bytes of tensors "
        "cannot be read until they are back",
        store.missing.count, store.missing.first.front().segment,
        store.missing.bytes));
  }
}

}  // namespace

absl::Status NodeServiceImpl::Status(v1::NodeStatus& out) {
  const ingest::IngestStats ingest = parts_.pipeline.Stats();
  const storage::StoreStats store = parts_.store.Stats();
  out.set_version(parts_.version);
  SetDuration(std::chrono::steady_clock::now() - start_, *out.mutable_uptime());
  SetStorageState(ingest, store, out);
  SetMissing(store.missing, out);
  out.set_run_count(Signed(store.run_count));
  out.set_open_stream_count(Signed(ingest.open_stream_count));
  out.set_committed_chunk_count(Signed(store.committed_chunk_count));
  out.set_committed_record_count(Signed(store.committed_record_count));
  out.set_committed_bytes(Signed(store.committed_bytes));
  out.set_refused_chunk_count(Signed(ingest.refused_chunk_count));
  out.set_duplicate_count(Signed(store.duplicate_count));
  out.set_conflict_count(Signed(store.conflict_count));
  out.set_checked_digest_count(Signed(store.checked_digest_count));
  out.set_false_digest_count(Signed(store.false_digest_count));
  out.set_dropped_count(Signed(ingest.coverage.dropped_count));
  out.set_segment_size_bytes(Signed(store.segment_bytes));
  out.set_index_size_bytes(Signed(store.index_bytes));
  out.set_segment_count(Signed(store.segment_count));
  out.set_disk_free_bytes(Signed(store.disk_free_bytes));
  out.set_active_comparison_count(parts_.active_comparisons());
  const compare::BoundedComparisons::Stats stored = parts_.stored_comparisons();
  out.set_comparison_size_bytes(Signed(stored.bytes));
  out.set_comparison_size_bytes_max(Signed(stored.bytes_max));
  out.set_expired_comparison_count(Signed(stored.removed_count));
  out.set_recovered_frame_count(Signed(store.recovered_frame_count));
  out.set_torn_frame_count(Signed(store.torn_frame_count));
  out.set_corrupt_frame_count(Signed(store.corrupt_frame_count));
  out.set_expired_size_bytes(Signed(store.expired_bytes));
  out.set_excess_size_bytes(Signed(store.excess_bytes));
  out.set_shared_size_bytes(Signed(store.shared_bytes));
  out.set_retention_error(parts_.retention_error());
  out.set_retention_pause(store.retention_pause);
  out.set_shared_memory_pages(parts_.shared_memory_pages());
  SetArchives(parts_.archives(), *out.mutable_archives());
  out.set_pinned_run_count(Signed(store.pinned_run_count));
  out.set_pinned_size_bytes(Signed(store.pinned_bytes));
  out.set_is_making_room(store.is_making_room);
  SetVerification(store.verify, parts_.verify_error(),
                  *out.mutable_verification());
  out.set_ring_size_bytes(Signed(ingest.ring_bytes));
  out.set_ring_used_bytes(Signed(ingest.ring_used_bytes));
  out.set_truncated_count(Signed(ingest.coverage.truncated_count));
  out.set_degraded_count(Signed(ingest.coverage.degraded_count));
  return absl::OkStatus();
}

absl::Status NodeServiceImpl::List(const v1::ListStreamsRequest& request,
                                   v1::ListStreamsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  MSITD_ASSIGN_OR_RETURN(
      const std::string position,
      query::DecodePageToken(kListKey, request.page_token()));
  MSITD_ASSIGN_OR_RETURN(const auto after, ParsePosition(position));
  const std::vector<ingest::StreamStats> streams =
      parts_.pipeline.Streams(after, static_cast<size_t>(page_size) + 1);
  for (const ingest::StreamStats& stream : streams) {
    if (response.streams_size() == page_size) {
      const v1::Stream& last = response.streams(page_size - 1);
      response.set_next_page_token(query::EncodePageToken(
          kListKey, fmt::format("{}@{}", last.rank(), last.run())));
      break;
    }
    SetStream(stream, *response.add_streams());
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* NodeServiceImpl::GetCapabilities(
    grpc::CallbackServerContext* context, const v1::GetCapabilitiesRequest*,
    v1::Capabilities* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    SetCapabilities(parts_.version, *response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* NodeServiceImpl::GetNodeStatus(
    grpc::CallbackServerContext* context, const v1::GetNodeStatusRequest*,
    v1::NodeStatus* response) {
  return UnaryCall::Start(pool_, *context,
                          [=, this](const Call&) { return Status(*response); });
}

grpc::ServerUnaryReactor* NodeServiceImpl::ListStreams(
    grpc::CallbackServerContext* context, const v1::ListStreamsRequest* request,
    v1::ListStreamsResponse* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    return List(*request, *response);
  });
}

grpc::ServerUnaryReactor* NodeServiceImpl::GetDiagnostics(
    grpc::CallbackServerContext* context, const v1::GetDiagnosticsRequest*,
    v1::Diagnostics* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    *response = parts_.diagnostics();
    return absl::OkStatus();
  });
}

}  // namespace msitd::service
