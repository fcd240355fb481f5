// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/wire.h"

#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5,
};

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendNumber(uint32_t field, uint64_t value, std::string* out) {
  if (value == 0) return;
  AppendVarint(field << 3 | kVarint, out);
  AppendVarint(value, out);
}

void AppendBytes(uint32_t field, std::string_view bytes, std::string* out) {
  AppendVarint(field << 3 | kBytes, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}

// Iterates over the fields of an untrusted message.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // Advances to the next field. Returns false at the end or at a malformed
  // byte.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty() || !TakeVarint(&tag)) return false;
    field_ = tag >> 3;
    type_ = static_cast<WireType>(tag & 7);
    switch (type_) {
      case kVarint:
        return TakeVarint(&number_);
      case kFixed64:
        return Skip(8);
      case kFixed32:
        return Skip(4);
      case kBytes:
        return TakeVarint(&number_) && Skip(number_);
    }
    is_malformed_ = true;
    return false;
  }

  bool IsNumber(uint64_t field) const {
    return type_ == kVarint && field_ == field;
  }
  bool IsBytes(uint64_t field) const {
    return type_ == kBytes && field_ == field;
  }
  uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  bool is_malformed() const { return is_malformed_; }

 private:
  bool TakeVarint(uint64_t* value) {
    *value = 0;
    for (uint32_t shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    is_malformed_ = true;
    return false;
  }

  bool Skip(uint64_t size) {
    if (size > rest_.size()) {
      is_malformed_ = true;
      return false;
    }
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  uint64_t field_ = 0;
  WireType type_ = kVarint;
  uint64_t number_ = 0;
  std::string_view bytes_;
  bool is_malformed_ = false;
};

}  // namespace

std::string EncodeOpen(const StreamIdentity& identity) {
  std::string open;
  if (!identity.run.empty()) AppendBytes(1, identity.run, &open);
  AppendNumber(2, static_cast<uint64_t>(identity.rank), &open);
  AppendNumber(3, static_cast<uint64_t>(identity.world_size), &open);
  AppendNumber(4, identity.stream_id, &open);
  if (!identity.user_agent.empty()) AppendBytes(5, identity.user_agent, &open);
  AppendNumber(6, static_cast<uint64_t>(identity.if_exists), &open);
  if (!identity.job.empty()) AppendBytes(7, identity.job, &open);
  std::string request;
  AppendBytes(1, open, &request);
  return request;
}

std::string EncodeChunkPrefix(uint64_t chunk_bytes) {
  std::string prefix;
  AppendVarint(2 << 3 | kBytes, &prefix);
  AppendVarint(chunk_bytes, &prefix);
  return prefix;
}

std::string EncodeCoverage(const StreamCoverage& coverage, int64_t token_end) {
  std::string report;
  AppendNumber(1, coverage.dropped_count, &report);
  AppendNumber(2, coverage.truncated_count, &report);
  AppendNumber(3, coverage.filtered_count, &report);
  AppendNumber(4, coverage.seen_count, &report);
  AppendNumber(5, coverage.degraded_count, &report);
  AppendNumber(6, static_cast<uint64_t>(token_end), &report);
  AppendNumber(7, coverage.recording_ns, &report);
  AppendNumber(8, coverage.open_ns, &report);
  std::string request;
  AppendBytes(3, report, &request);
  return request;
}

std::optional<Answer> DecodeAnswer(std::string_view message) {
  FieldReader reader(message);
  // Absent fields keep their defaults.
  Answer answer;
  while (reader.Next()) {
    if (reader.IsNumber(1)) answer.committed_count = reader.number();
    if (reader.IsBytes(2)) answer.capture_policy = reader.bytes();
    if (reader.IsBytes(3)) answer.run = reader.bytes();
    if (reader.IsNumber(4)) answer.conflict_count = reader.number();
    if (reader.IsNumber(5)) answer.chunk_version = reader.number();
    if (reader.IsNumber(150)) answer.first_token = reader.number();
  }
  if (reader.is_malformed() || answer.committed_count > uint64_t{INT64_MAX} ||
      answer.run.size() > kRunNameBytesMax) {
    return std::nullopt;
  }
  return answer;
}

std::string DecodeReason(std::string_view status_details) {
  FieldReader status(status_details);
  while (status.Next()) {
    if (!status.IsBytes(3)) continue;
    std::string_view type_url;
    std::string_view value;
    FieldReader any(status.bytes());
    while (any.Next()) {
      if (any.IsBytes(1)) type_url = any.bytes();
      if (any.IsBytes(2)) value = any.bytes();
    }
    if (!type_url.ends_with("/google.rpc.ErrorInfo")) continue;
    FieldReader error_info(value);
    while (error_info.Next()) {
      if (error_info.IsBytes(1)) return std::string(error_info.bytes());
    }
  }
  return {};
}

}  // namespace msitd::libmsit
