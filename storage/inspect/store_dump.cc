// SPDX-License-Identifier: Apache-2.0
#include "storage/inspect/store_dump.h"

#include <limits>
#include <memory>
#include <string>

#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/resource_name.h"
#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Returns how much of a frame's payload is kept: 1 for all of it, 0 for
// nothing.
std::string_view KeptText(chunk::Kept kept) {
  switch (kept) {
    case chunk::Kept::kAll:
      return "1";
    case chunk::Kept::kSample:
      return "sample";
    case chunk::Kept::kNothing:
      break;
  }
  return "0";
}

// `place` is the location of the record, or of its sample, in the frame.
std::string RecordLine(const FoundFrame& frame,
                       const chunk::RecordDescriptor& record,
                       const chunk::FramePayload::RecordBytes& place) {
  const chunk::Chunk& chunk = frame.chunk;
  TensorKey key;
  key.run = chunk.run();
  key.rank = chunk.header().rank;
  key.device = chunk.Text(record.device);
  key.token = record.token;
  key.op = chunk.Text(record.op);
  key.call = record.call;
  key.io = static_cast<Io>(record.io);
  key.index = chunk.Text(record.index);
  std::string sample;
  if (chunk.kept() == chunk::Kept::kSample) {
    sample = fmt::format(" sample_bytes={} sample_hash={:016x}", place.bytes,
                         record.sample_hash);
  }
  // A placement contains no blank, so it needs no quotes.
  const std::string_view placement = chunk.Text(record.placement);
  return fmt::format(
      "  record offset={} bytes={} dtype={} shape=[{}] tensor_bytes={} "
      "part_offset={} sequence={} hash={}{}{}{} {}",
      frame.offset + chunk.head().size() + place.offset, record.payload_bytes,
      DTypeName(static_cast<DType>(record.dtype)),
      fmt::join(chunk.Dims(record), ","), record.tensor_bytes,
      record.part_offset, record.sequence, HashText(record.hash), sample,
      placement.empty() ? "" : " placement=", placement, FormatTensorName(key));
}

// Describes how the record differs from a tensor with bytes of its own; empty
// if it does not.
std::string ExtraText(const chunk::Chunk& chunk,
                      const chunk::RecordDescriptor& record) {
  if (record.flags == 0) return "";
  std::string out;
  const chunk::RecordExtra extra = chunk.ExtraOf(record);
  const RecordKind kind = chunk::KindOf(record);
  if (kind != RecordKind::kTensor) {
    out += fmt::format(" kind={}", RecordKindName(kind));
  }
  if (const auto requires_grad = chunk::RequiresGradOf(record)) {
    out += fmt::format(" requires_grad={}", *requires_grad ? 1 : 0);
  }
  if (chunk::HasDigest(record)) {
    const bool is_false = (record.flags & chunk::kFalseDigestFlag) != 0;
    out += chunk::IsClaimed(record) ? " digest=claimed"
           : is_false               ? " digest=false"
                                    : " digest=checked";
  }
  if (extra.has_value()) {
    out += fmt::format(" value_bytes={}", extra.value.length);
  }
  if (extra.stack.length > 0) {
    out += fmt::format(" stack_bytes={}", extra.stack.length);
  }
  if (extra.is_alias()) {
    out += fmt::format(" bytes_segment={} bytes_offset={}",
                       record.bytes_segment_id, record.bytes_offset);
  }
  return out;
}

void DumpFrame(const FoundFrame& frame, const LineSink& sink) {
  const chunk::ChunkHeader& header = frame.chunk.header();
  sink(fmt::format(
      "frame segment={} offset={} bytes={} sequence={} run_id={} rank={} "
      "stream={:016x} chunk={} records={} payload_bytes={} kept={} "
      "durable_bytes={} receive_time_ns={}",
      header.segment_id, frame.offset, frame.chunk.frame_bytes(),
      header.frame_sequence, header.run_id, header.rank, header.stream_id,
      header.chunk_sequence, header.record_count, header.payload_bytes,
      KeptText(frame.chunk.kept()), header.durable_bytes,
      header.receive_time_ns));
  chunk::FramePayload payload(header);
  for (const chunk::RecordDescriptor& record : frame.chunk.records()) {
    sink(RecordLine(frame, record, payload.Next(record)) +
         ExtraText(frame.chunk, record));
  }
}

absl::Status DumpSegment(StoreView& store, const SegmentFile& segment,
                         const LineSink& sink) {
  if (segment.header.has_value()) {
    sink(fmt::format(
        "segment {} file={} bytes={} store={:016x} previous={} "
        "previous_end={} create_time_ns={}",
        ToNumber(segment.id), segment.path, segment.size_bytes,
        segment.header->store_id, segment.header->previous_segment_id,
        segment.header->previous_end_bytes, segment.header->create_time_ns));
  } else {
    sink(fmt::format("segment {} file={} bytes={} header: {}",
                     ToNumber(segment.id), segment.path, segment.size_bytes,
                     segment.header_error));
  }
  absl::StatusOr<std::unique_ptr<File>> opened =
      store.env().OpenForRead(segment.path, /*direct=*/false);
  if (absl::IsNotFound(opened.status()) && store.is_live()) {
    sink(fmt::format("segment {} has gone meanwhile", ToNumber(segment.id)));
    return absl::OkStatus();
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, std::move(opened));
  MSITD_ASSIGN_OR_RETURN(SegmentWalk walk, store.Walk(segment, *file));
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const SegmentWalk::Step step, walk.Next());
    using Kind = SegmentWalk::Step::Kind;
    if (step.kind == Kind::kEnd) return absl::OkStatus();
    if (step.kind == Kind::kFrame) {
      DumpFrame(*step.frame, sink);
      continue;
    }
    sink(fmt::format("{} segment={} offset={} bytes={} reason: {}",
                     step.kind == Kind::kDamage ? "damage" : "torn",
                     ToNumber(segment.id), step.gap.offset, step.gap.bytes,
                     step.gap.reason));
  }
}

}  // namespace

absl::Status DumpStore(StoreView& store, const LineSink& sink) {
  for (const SegmentFile& segment : store.segments()) {
    if (absl::Status status = DumpSegment(store, segment, sink); !status.ok()) {
      return Annotate(status, "dump " + segment.path);
    }
  }
  return absl::OkStatus();
}

void DumpRuns(StoreView& store, const LineSink& sink) {
  const auto runs =
      store.index().runs().List("", std::numeric_limits<size_t>::max());
  for (const RunInfo& run : runs) {
    const RunCounters& counters = run.counters;
    std::string values;
    if (counters.value_count != 0 || counters.dangling_count != 0) {
      values = fmt::format(" values={} dangling={}", counters.value_count,
                           counters.dangling_count);
    }
    if (counters.statistics_count != 0) {
      values += fmt::format(" statistics={}", counters.statistics_count);
    }
    sink(fmt::format(
        "run {} id={} state={} world_size={} tensors={} payload_bytes={} "
        "duplicates={} conflicts={} dropped={} truncated={} "
        "create_time_ns={}{}",
        run.spec.name, ToNumber(run.id),
        run.spec.restoring ? "restoring"
        : run.sealed       ? "sealed"
                           : "active",
        run.spec.world_size, counters.tensor_count, counters.payload_bytes,
        counters.duplicate_count, counters.conflict_count,
        counters.dropped_count, counters.truncated_count, run.create_time_ns,
        values));
  }
}

}  // namespace msitd::storage
