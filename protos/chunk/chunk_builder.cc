// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_builder.h"

#include <algorithm>
#include <cstring>

#include "protos/base/check.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {
namespace {

constexpr size_t kDimBytes = sizeof(int64_t);

// Mark in RecordDescriptor::reserved_1 of a removed record. The field is 0 in a
// finished chunk, because removed records are not written to it.
constexpr uint32_t kLeftOut = 1;

bool HasExtra(const RecordSpec& record) {
  return record.value.has_value() || !record.stack.empty() ||
         record.alias.has_value();
}

uint8_t FlagsOf(const RecordSpec& record) {
  auto flags = static_cast<uint8_t>(record.kind);
  if (record.requires_grad.has_value()) {
    flags |= (*record.requires_grad ? 2 : 1) << kRequiresGradShift;
  }
  if (HasExtra(record)) flags |= kExtraFlag;
  if (record.has_digest) flags |= kDigestFlag;
  return flags;
}

// Returns an upper bound, because equal texts share their bytes.
uint64_t TextBytes(const RecordSpec& record) {
  uint64_t bytes = record.op.size() + record.index.size() +
                   record.device.size() + record.placement.size() +
                   kDimBytes * (record.dims.size() + 1);
  if (HasExtra(record)) {
    bytes += sizeof(RecordExtra) + record.stack.size() +
             record.value.value_or("").size();
    if (record.alias)
      bytes += record.alias->op.size() + record.alias->index.size();
  }
  return bytes;
}

}  // namespace

uint16_t VersionFor(const RecordSpec& record) {
  return VersionFor(FlagsOf(record));
}

ChunkBuilder::ChunkBuilder(std::span<std::byte> buffer) : buffer_(buffer) {
  MSITD_CHECK(buffer.size() >= kBufferBytes);
  MSITD_CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % kChunkAlignment ==
              0);
}

void ChunkBuilder::Start(std::string_view run, int32_t rank, uint64_t stream_id,
                         uint64_t chunk_sequence) {
  records_.clear();
  left_out_count_ = 0;
  tail_.clear();
  interned_.clear();
  payload_bytes_ = 0;
  has_draft_ = false;
  header_ = ChunkHeader{};
  header_.rank = rank;
  header_.stream_id = stream_id;
  header_.chunk_sequence = chunk_sequence;
  header_.run = Intern(run);
}

TextRef ChunkBuilder::Intern(std::string_view text) {
  const auto [it, inserted] = interned_.try_emplace(std::string(text));
  if (inserted) {
    it->second = {static_cast<uint32_t>(tail_.size()),
                  static_cast<uint32_t>(text.size())};
    tail_ += text;
  }
  return it->second;
}

bool ChunkBuilder::HeadFits(const RecordSpec& record) const {
  const uint64_t text_bytes = tail_.size() + TextBytes(record);
  const uint64_t head_bytes = sizeof(ChunkHeader) +
                              (records_.size() + 1) * sizeof(RecordDescriptor) +
                              text_bytes;
  return has_draft_ ? Draft::Fits(text_bytes, head_bytes)
                    : head_bytes <= kChunkHeadBytesMax;
}

void ChunkBuilder::AddExtra(const RecordSpec& record) {
  RecordExtra extra;
  const size_t at = tail_.size();
  tail_.resize(at + sizeof(extra));
  if (record.value.has_value()) {
    extra.flags |= kValueFlag;
    extra.value = Intern(*record.value);
  }
  if (!record.stack.empty()) extra.stack = Intern(record.stack);
  if (record.alias.has_value()) {
    extra.flags |= kAliasFlag;
    extra.alias_op = Intern(record.alias->op);
    extra.alias_index = Intern(record.alias->index);
    extra.alias_call = record.alias->call;
    extra.alias_io = static_cast<uint8_t>(record.alias->io);
  }
  std::memcpy(tail_.data() + at, &extra, sizeof(extra));
}

void ChunkBuilder::StartDraft(uint64_t number, int64_t client_time_ns) {
  has_draft_ = true;
  Draft(buffer_).Start(number, header_.flags, client_time_ns);
}

std::span<std::byte> ChunkBuilder::Add(const RecordSpec& record) {
  const uint64_t offset = AlignUp(payload_bytes_, kRecordAlignment);
  if (records_.size() >= kChunkRecordsMax ||
      record.part_bytes > kChunkPayloadBytesMax ||
      offset + record.part_bytes > kChunkPayloadBytesMax || !HeadFits(record)) {
    return {};
  }
  const size_t old_text_bytes = records_.empty() ? 0 : tail_.size();
  RecordDescriptor out;
  out.sequence = record.sequence;
  out.token = record.token;
  out.op = Intern(record.op);
  out.index = Intern(record.index);
  out.device = Intern(record.device);
  if (!record.placement.empty()) out.placement = Intern(record.placement);
  out.call = record.call;
  out.io = static_cast<uint8_t>(record.io);
  out.dtype = static_cast<uint8_t>(record.dtype);
  out.dim_count = static_cast<uint8_t>(record.dims.size());
  out.flags = FlagsOf(record);
  header_.version = std::max(header_.version, VersionFor(out.flags));
  // The length of the table before the tail is a multiple of 8, so dims that
  // are aligned in the tail are also aligned in the head.
  tail_.resize(AlignUp(tail_.size(), kDimBytes), '\0');
  out.dims_offset = static_cast<uint32_t>(tail_.size());
  if (!record.dims.empty()) {
    tail_.append(reinterpret_cast<const char*>(record.dims.data()),
                 record.dims.size_bytes());
  }
  if ((out.flags & kExtraFlag) != 0) AddExtra(record);
  out.payload_offset = offset;
  out.payload_bytes = record.part_bytes;
  out.tensor_bytes = record.tensor_bytes;
  out.part_offset = record.part_offset;
  records_.push_back(out);
  if (has_draft_) {
    Draft(buffer_).Add(record_count() - 1, out, tail_, old_text_bytes);
  }

  std::byte* payload = buffer_.data() + kChunkHeadBytesMax;
  std::memset(payload + payload_bytes_, 0, offset - payload_bytes_);
  payload_bytes_ = offset + record.part_bytes;
  return {payload + offset, record.part_bytes};
}

void ChunkBuilder::LeaveOut(uint32_t index) {
  records_[index].reserved_1 = kLeftOut;
  ++left_out_count_;
}

void ChunkBuilder::ShiftTokens(int64_t by) {
  for (uint32_t i = 0; i < record_count(); ++i) {
    records_[i].token += by;
    if (has_draft_) Draft(buffer_).SetToken(i, records_[i].token);
  }
}

std::span<const std::byte> ChunkBuilder::Finish(int64_t client_time_ns) {
  if (left_out_count_ != 0) {
    std::erase_if(records_, [](const RecordDescriptor& record) {
      return record.reserved_1 == kLeftOut;
    });
  }
  const uint64_t table_bytes =
      sizeof(ChunkHeader) + records_.size() * sizeof(RecordDescriptor);
  const auto shift = static_cast<uint32_t>(table_bytes);
  header_.head_bytes = static_cast<uint32_t>(table_bytes + tail_.size());
  header_.record_count = record_count();
  header_.payload_bytes = payload_bytes_;
  header_.client_time_ns = client_time_ns;
  header_.run.offset += shift;
  for (RecordDescriptor& record : records_) ShiftTexts(record, shift);

  const uint64_t head_span = AlignUp(header_.head_bytes, kChunkAlignment);
  std::byte* payload = buffer_.data() + kChunkHeadBytesMax;
  std::byte* head = payload - head_span;
  std::memcpy(head, &header_, sizeof(header_));
  if (!records_.empty()) {
    std::memcpy(head + sizeof(header_), records_.data(),
                records_.size() * sizeof(RecordDescriptor));
  }
  std::memcpy(head + table_bytes, tail_.data(), tail_.size());
  for (const RecordDescriptor& record : records_) {
    if ((record.flags & kExtraFlag) == 0) continue;
    ShiftTexts(*reinterpret_cast<RecordExtra*>(head + ExtraOffset(record)),
               shift);
  }
  std::memset(head + header_.head_bytes, 0, head_span - header_.head_bytes);
  const uint64_t payload_span = AlignUp(payload_bytes_, kChunkAlignment);
  std::memset(payload + payload_bytes_, 0, payload_span - payload_bytes_);
  return {head, head_span + payload_span};
}

}  // namespace msitd::chunk
