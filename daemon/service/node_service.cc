// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/node_service.h"

#include "daemon/compute/metric_table.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/query/tensor_reader.h"
#include "daemon/service/call/reactor.h"
#include "protos/chunk/chunk_format.h"
#include "protos/compute/digest.h"

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

v1::NodeStatus::StorageState ToProto(ingest::StorageState state) {
  switch (state) {
    case ingest::StorageState::kOk:
      return v1::NodeStatus::OK;
    case ingest::StorageState::kFull:
      return v1::NodeStatus::FULL;
    case ingest::StorageState::kFailed:
      break;
  }
  return v1::NodeStatus::FAILED;
}

}  // namespace

absl::Status NodeServiceImpl::Status(v1::NodeStatus& out) {
  const ingest::IngestStats ingest = pipeline_.Stats();
  const storage::StoreStats store = store_.Stats();
  const auto signed_of = [](uint64_t n) { return static_cast<int64_t>(n); };
  out.set_version(version_);
  const auto uptime = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - start_);
  out.mutable_uptime()->set_seconds(uptime.count() / 1'000'000'000);
  out.mutable_uptime()->set_nanos(
      static_cast<int32_t>(uptime.count() % 1'000'000'000));
  out.set_storage_state(ToProto(ingest.storage_state));
  out.set_storage_error(ingest.storage_error);
  out.set_run_count(signed_of(store.run_count));
  out.set_open_stream_count(signed_of(ingest.open_stream_count));
  out.set_committed_chunk_count(signed_of(store.committed_chunk_count));
  out.set_committed_record_count(signed_of(store.committed_record_count));
  out.set_committed_bytes(signed_of(store.committed_bytes));
  out.set_refused_chunk_count(signed_of(ingest.refused_chunk_count));
  out.set_duplicate_count(signed_of(store.duplicate_count));
  out.set_conflict_count(signed_of(store.conflict_count));
  out.set_checked_digest_count(signed_of(store.checked_digest_count));
  out.set_false_digest_count(signed_of(store.false_digest_count));
  out.set_dropped_count(signed_of(ingest.dropped_count));
  out.set_segment_size_bytes(signed_of(store.segment_bytes));
  out.set_index_size_bytes(signed_of(store.index_bytes));
  out.set_segment_count(signed_of(store.segment_count));
  out.set_disk_free_bytes(signed_of(store.disk_free_bytes));
  out.set_active_comparison_count(active_comparisons_());
  out.set_recovered_frame_count(signed_of(store.recovered_frame_count));
  out.set_torn_frame_count(signed_of(store.torn_frame_count));
  out.set_corrupt_frame_count(signed_of(store.corrupt_frame_count));
  out.set_expired_size_bytes(signed_of(store.expired_bytes));
  out.set_excess_size_bytes(signed_of(store.excess_bytes));
  out.set_shared_size_bytes(signed_of(store.shared_bytes));
  out.set_retention_error(retention_error_());
  out.set_retention_pause(store.retention_pause);
  out.set_shared_memory_pages(shared_memory_pages_());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* NodeServiceImpl::GetCapabilities(
    grpc::CallbackServerContext* context, const v1::GetCapabilitiesRequest*,
    v1::Capabilities* response) {
  return UnaryCall::Start(pool_, *context, [=, this](const Call&) {
    SetCapabilities(version_, *response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* NodeServiceImpl::GetNodeStatus(
    grpc::CallbackServerContext* context, const v1::GetNodeStatusRequest*,
    v1::NodeStatus* response) {
  return UnaryCall::Start(pool_, *context,
                          [=, this](const Call&) { return Status(*response); });
}

}  // namespace msitd::service
