// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/run_reader_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/query/group_digest.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"
#include "storage/face/run_id_text.h"

namespace msitd::service {
namespace {

using Clock = std::chrono::steady_clock;

// Ends the search for the contents of a message after a time limit.
class MessageTime {
 public:
  explicit MessageTime(const Call& call) : call_(call) {}

  absl::Status Check() {
    MSITD_RETURN_IF_ERROR(call_.Check());
    is_over_ = Clock::now() >= end_;
    return is_over_ ? absl::CancelledError("the message is due")
                    : absl::OkStatus();
  }
  bool is_over() const { return is_over_; }

 private:
  const Call& call_;
  const Clock::time_point end_ = Clock::now() + kRunReaderMessageTime;
  bool is_over_ = false;
};

// Base of the sources that read one run.
template <typename Request>
class OfRun {
 public:
  OfRun(storage::RunReaders& readers, const Request& request)
      : request_(request), readers_(readers) {}

 protected:
  absl::Status Open() {
    if (run_.reader != nullptr) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(
        run_, OpenRunById(readers_, request_.run(), request_.run_id()));
    return absl::OkStatus();
  }

  const Request request_;
  OpenedRun run_;
  bool is_over_ = false;

 private:
  storage::RunReaders& readers_;
};

void SetCoverage(const storage::RankCoverage& from,
                 v1::DescribeRunResponse::Coverage& out) {
  out.set_rank(from.rank);
  out.set_stream_count(from.stream_count);
  out.set_seen_count(from.total.seen_count);
  out.set_filtered_count(from.total.filtered_count);
  out.set_dropped_count(from.total.dropped_count);
  out.set_truncated_count(from.total.truncated_count);
  out.set_degraded_count(from.total.degraded_count);
  out.set_repeated_count(from.repeats.repeated_count);
  out.set_conflict_count(from.repeats.conflict_count);
  out.set_dangling_count(from.repeats.dangling_count);
  out.set_claimed_count(from.repeats.claimed_count);
  out.set_checked_count(from.repeats.checked_count);
  out.set_false_count(from.repeats.false_count);
}

class Description final : public StreamSource<v1::DescribeRunResponse>,
                          OfRun<v1::DescribeRunRequest> {
 public:
  using OfRun::OfRun;

  absl::StatusOr<StreamStep> Next(const Call& /*call*/,
                                  v1::DescribeRunResponse& message) override {
    if (is_over_) return StreamStep::kEnd;
    if (run_.reader == nullptr) {
      MSITD_RETURN_IF_ERROR(Open());
      ToProto(run_.info, *message.mutable_run());
      message.set_job(run_.info.spec.job);
      message.set_capture_policy(run_.info.capture_policy);
      const storage::RunCounters& counters = run_.info.counters;
      message.set_headless_count(static_cast<int64_t>(counters.headless_count));
      message.set_token_end(counters.token_end);
      MSITD_RETURN_IF_ERROR(Load());
    }
    message.set_run_id(run_.id);
    size_t bytes = message.ByteSizeLong();
    size_t count = 0;
    const auto has_room = [&] {
      return count < kDetailsPerMessage && bytes < kRunReaderMessageBytes;
    };
    for (; next_ < coverage_.size() && has_room(); ++next_, ++count) {
      SetCoverage(coverage_[next_], *message.add_coverage());
    }
    for (; next_ < ranks_.size() && has_room(); ++next_, ++count) {
      message.add_ranks(ranks_[next_]);
    }
    for (; next_ < placements_.size() && has_room(); ++next_, ++count) {
      message.add_placements(placements_[next_]);
      bytes += placements_[next_].size();
    }
    is_over_ = next_ >= coverage_.size() + ranks_.size() + placements_.size();
    message.set_is_last(is_over_);
    return StreamStep::kMessage;
  }

 private:
  // Loads the details that the request selects. Fills at most one of the lists.
  absl::Status Load() {
    switch (request_.detail()) {
      case v1::DescribeRunRequest::DETAIL_UNSPECIFIED:
        return absl::OkStatus();
      case v1::DescribeRunRequest::COVERAGE: {
        MSITD_ASSIGN_OR_RETURN(coverage_, run_.reader->ListCoverage());
        return absl::OkStatus();
      }
      case v1::DescribeRunRequest::RANKS: {
        MSITD_ASSIGN_OR_RETURN(ranks_, run_.reader->ListRanks());
        return absl::OkStatus();
      }
      case v1::DescribeRunRequest::PLACEMENTS: {
        MSITD_ASSIGN_OR_RETURN(placements_, run_.reader->ListPlacements());
        return absl::OkStatus();
      }
      default:
        return FieldInvalid("detail",
                            fmt::format("{} is no such value",
                                        static_cast<int>(request_.detail())));
    }
  }

  std::vector<storage::RankCoverage> coverage_;
  std::vector<int32_t> ranks_;
  std::vector<std::string> placements_;
  size_t next_ = 0;
};

// Reads only the contents of the next message from the index, because a run may
// have tens of millions of coordinates and a peer may leave many streams
// unread.
class Coordinates final : public StreamSource<v1::ListCoordinatesResponse>,
                          OfRun<v1::ListCoordinatesRequest> {
 public:
  using OfRun::OfRun;

  absl::StatusOr<StreamStep> Next(
      const Call& call, v1::ListCoordinatesResponse& message) override {
    if (is_over_) return StreamStep::kEnd;
    if (run_.reader == nullptr) {
      MSITD_RETURN_IF_ERROR(Open());
      MSITD_ASSIGN_OR_RETURN(selector_, ToSelector(request_.filter()));
      MSITD_ASSIGN_OR_RETURN(ranks_, run_.reader->ListRanks());
      std::erase_if(ranks_,
                    [this](int32_t rank) { return !selector_.HasRank(rank); });
    }
    MessageTime time(call);
    size_t count = 0;
    bool is_full = false;
    while (!is_full && next_rank_ < ranks_.size()) {
      selector_.ranks = {ranks_[next_rank_]};
      const absl::Status status =
          Visit([&](const storage::Coordinate& at) -> absl::Status {
            // At least one coordinate is added, so that each message makes
            // progress.
            is_full = count == kCoordinatesPerMessage ||
                      (count > 0 && !time.Check().ok());
            if (is_full) return absl::CancelledError("the message is full");
            Add(at, message);
            last_ = at;
            ++count;
            return absl::OkStatus();
          });
      if (is_full) break;
      MSITD_RETURN_IF_ERROR(status);
      ++next_rank_;
      last_.reset();
    }
    MSITD_RETURN_IF_ERROR(call.Check());
    is_over_ = next_rank_ == ranks_.size();
    message.set_is_last(is_over_);
    return StreamStep::kMessage;
  }

 private:
  // Visits the remaining coordinates of the rank.
  absl::Status Visit(
      absl::FunctionRef<absl::Status(const storage::Coordinate&)> visit) {
    return last_.has_value()
               ? run_.reader->VisitCoordinatesAfter(selector_, *last_, visit)
               : run_.reader->VisitCoordinates(selector_, visit);
  }

  void Add(const storage::Coordinate& at,
           v1::ListCoordinatesResponse& message) const {
    const int tokens_count = message.tokens_size();
    v1::ListCoordinatesResponse::Tokens* tokens =
        tokens_count == 0 ? nullptr : message.mutable_tokens(tokens_count - 1);
    // Steps are relative to the previous token, or to 0.
    const bool continues = tokens != nullptr && tokens->rank() == at.rank &&
                           tokens->device() == at.device;
    if (!continues) {
      tokens = message.add_tokens();
      tokens->set_rank(at.rank);
      tokens->set_device(at.device);
    }
    tokens->add_steps(continues ? at.token - last_->token : at.token);
  }

  Selector selector_;
  std::vector<int32_t> ranks_;
  size_t next_rank_ = 0;
  // The last coordinate of the previous message, if its rank may have more.
  std::optional<storage::Coordinate> last_;
};

class Entries final : public StreamSource<v1::ScanTensorsResponse>,
                      OfRun<v1::ScanTensorsRequest> {
 public:
  using OfRun::OfRun;

  absl::StatusOr<StreamStep> Next(const Call& call,
                                  v1::ScanTensorsResponse& message) override {
    if (is_over_) return StreamStep::kEnd;
    MSITD_RETURN_IF_ERROR(BeginScan());
    MessageTime time(call);
    storage::EntryBatchWriter writer;
    while (!writer.is_full()) {
      const absl::StatusOr<bool> found =
          scan_->Next(entry_, [&time] { return time.Check(); });
      if (time.is_over()) break;
      MSITD_RETURN_IF_ERROR(found.status());
      is_over_ = !*found;
      if (is_over_) break;
      writer.Add(entry_);
    }
    message.set_entry_count(static_cast<int64_t>(writer.entry_count()));
    if (writer.entry_count() > 0) message.set_entries(writer.Finish());
    message.set_position(scan_->position());
    message.set_incomplete_count(
        static_cast<int64_t>(incomplete_before_ + scan_->incomplete_count()));
    message.set_is_last(is_over_);
    return StreamStep::kMessage;
  }

 private:
  absl::Status BeginScan() {
    std::string position;
    if (run_.reader == nullptr) {
      MSITD_RETURN_IF_ERROR(Open());
      MSITD_ASSIGN_OR_RETURN(selector_, ToSelector(request_.filter()));
      position = request_.position();
    } else if (Clock::now() < scan_end_) {
      return absl::OkStatus();
    } else {
      position = scan_->position();
      incomplete_before_ += scan_->incomplete_count();
    }
    MSITD_ASSIGN_OR_RETURN(scan_, run_.reader->Scan(selector_, position));
    scan_end_ = Clock::now() + kScanTimeMax;
    return absl::OkStatus();
  }

  Selector selector_;
  std::unique_ptr<storage::TensorScan> scan_;
  Clock::time_point scan_end_;
  uint64_t incomplete_before_ = 0;  // From earlier scans.
  storage::TensorInfo entry_;
};

// The sample is looked up in a tensor that has this part. Its other parts do
// not matter.
absl::StatusOr<storage::TensorInfo> ToSampledTensor(
    const v1::SampleAddress& address) {
  storage::TensorInfo out;
  out.dtype = static_cast<DType>(address.dtype());
  if (address.dtype() < 0 || address.dtype() >= kDTypeCount ||
      !IsValid(out.dtype)) {
    return FieldInvalid("dtype", fmt::format("{} is none", address.dtype()));
  }
  out.tensor_bytes = static_cast<uint64_t>(address.tensor_size_bytes());
  if (address.tensor_size_bytes() < 0 || out.tensor_bytes > kTensorBytesMax) {
    return FieldInvalid(
        "tensor_size_bytes",
        fmt::format("{} is not in 0..{}", address.tensor_size_bytes(),
                    kTensorBytesMax));
  }
  const int64_t number = address.part_number();
  const auto begin = static_cast<uint64_t>(number) * kPartBytes;
  if (number < 0 || number > static_cast<int64_t>(kTensorBytesMax) ||
      (begin >= out.tensor_bytes && number > 0)) {
    return FieldInvalid("part_number",
                        fmt::format("the tensor has no part {}", number));
  }
  MSITD_ASSIGN_OR_RETURN(storage::PartInfo part, ToPart(address.part()));
  if (part.bytes != std::min(kPartBytes, out.tensor_bytes - begin)) {
    return FieldInvalid(
        "part.size_bytes",
        fmt::format("{} is not what part {} has", part.bytes, number));
  }
  part.has_bytes = address.has_bytes();
  part.has_sample = address.has_sample();
  part.sample_hash = address.sample_hash();
  out.has_bytes = part.has_bytes;
  out.has_sample = part.has_sample;
  out.parts.resize(static_cast<size_t>(number) + 1);
  out.parts.back() = part;
  return out;
}

class Parts final : public StreamSource<v1::ReadPartsResponse>,
                    OfRun<v1::ReadPartsRequest> {
 public:
  using OfRun::OfRun;

  absl::StatusOr<StreamStep> Next(const Call& call,
                                  v1::ReadPartsResponse& message) override {
    if (run_.reader == nullptr) {
      MSITD_RETURN_IF_ERROR(Load());
      MSITD_RETURN_IF_ERROR(Open());
    }
    if (request_.samples_size() > 0) return NextSamples(call, message);
    if (next_ == parts_.size()) return StreamStep::kEnd;
    size_t end = next_;
    uint64_t bytes = 0;
    while (
        end < parts_.size() &&
        (end == next_ || bytes + parts_[end].bytes <= kRunReaderMessageBytes)) {
      bytes += parts_[end++].bytes;
    }
    AlignedBuffer buffer;
    const auto some =
        std::span<const storage::PartInfo>(parts_).subspan(next_, end - next_);
    const auto batch = run_.reader->ReadParts(some, buffer);
    for (size_t i = 0; i < batch->size(); ++i) {
      MSITD_RETURN_IF_ERROR(call.Check());
      AddPart(batch->Read(i), message);
    }
    next_ += batch->size();
    return StreamStep::kMessage;
  }

 private:
  absl::Status Load() {
    const int count = request_.parts_size() + request_.samples_size();
    if (count < 1 || count > kReadPartsMax) {
      return FieldInvalid(
          "parts", fmt::format("{} is not in 1..{}", count, kReadPartsMax));
    }
    if (request_.parts_size() > 0 && request_.samples_size() > 0) {
      return FieldInvalid("samples", "cannot be with parts");
    }
    for (const v1::PartAddress& address : request_.parts()) {
      MSITD_ASSIGN_OR_RETURN(parts_.emplace_back(), ToPart(address));
    }
    return absl::OkStatus();
  }

  // Samples are read one after another, because a sample that is computed from
  // bytes costs as much as reading the bytes.
  absl::StatusOr<StreamStep> NextSamples(const Call& call,
                                         v1::ReadPartsResponse& message) {
    const auto count = static_cast<size_t>(request_.samples_size());
    if (next_ == count) return StreamStep::kEnd;
    AlignedBuffer buffer;
    for (uint64_t bytes = 0; next_ < count && bytes < kRunReaderMessageBytes;) {
      MSITD_RETURN_IF_ERROR(call.Check());
      const v1::SampleAddress& address =
          request_.samples(static_cast<int>(next_++));
      MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo tensor,
                             ToSampledTensor(address));
      AddPart(run_.reader->ReadSample(tensor, tensor.parts.size() - 1, buffer),
              message);
      // For a part far into the tensor, entries for all previous parts are
      // created as well.
      bytes += tensor.parts.size() * sizeof(storage::PartInfo) + kSampleCost;
      bytes += address.has_bytes() ? tensor.parts.back().bytes
                                   : message.parts().rbegin()->data().size();
    }
    return StreamStep::kMessage;
  }

  static void AddPart(const absl::StatusOr<std::span<const std::byte>>& bytes,
                      v1::ReadPartsResponse& message) {
    v1::ReadPartsResponse::Part& part = *message.add_parts();
    if (bytes.ok()) {
      part.set_data(bytes->data(), bytes->size());
      return;
    }
    part.set_error_code(static_cast<int>(bytes.status().code()));
    part.set_error_reason(Reason(bytes.status()));
    part.set_error(std::string(Message(bytes.status())));
  }

  std::vector<storage::PartInfo> parts_;
  size_t next_ = 0;
};

class Digests final : public StreamSource<v1::ListDigestsResponse>,
                      OfRun<v1::ListDigestsRequest> {
 public:
  using OfRun::OfRun;

  absl::StatusOr<StreamStep> Next(const Call& call,
                                  v1::ListDigestsResponse& message) override {
    if (is_over_) return StreamStep::kEnd;
    if (run_.reader == nullptr) {
      MSITD_RETURN_IF_ERROR(Open());
      MSITD_ASSIGN_OR_RETURN(selector_, ToSelector(request_.filter()));
      position_ = request_.position();
    }
    // A new scan starts with a whole group, so the current scan continues as
    // long as a large group needs.
    if (scan_ == nullptr || (has_group_ && Clock::now() > scan_end_)) {
      MSITD_ASSIGN_OR_RETURN(scan_, query::GroupDigestScan::Begin(
                                        *run_.reader, selector_, position_));
      scan_end_ = Clock::now() + kScanTimeMax;
      has_group_ = false;
    }
    MessageTime time(call);
    query::GroupDigest group;
    while (message.digests_size() < static_cast<int>(kDigestsPerMessage)) {
      const absl::StatusOr<bool> found =
          scan_->Next(group, [&time] { return time.Check(); });
      if (time.is_over()) break;
      MSITD_RETURN_IF_ERROR(found.status());
      is_over_ = !*found;
      if (is_over_) break;
      has_group_ = true;
      Add(group, *message.add_digests());
    }
    position_ = scan_->position();
    message.set_position(position_);
    message.set_version(query::kGroupDigestVersion);
    message.set_is_last(is_over_);
    return StreamStep::kMessage;
  }

 private:
  static void Add(const query::GroupDigest& group,
                  v1::ListDigestsResponse::Digest& out) {
    out.set_rank(group.at.rank);
    out.set_device(group.at.device);
    out.set_token(group.at.token);
    out.set_record_count(static_cast<int64_t>(group.record_count));
    out.set_hash_low(group.hash.low);
    out.set_hash_high(group.hash.high);
  }

  Selector selector_;
  std::string position_;
  std::unique_ptr<query::GroupDigestScan> scan_;
  Clock::time_point scan_end_;
  bool has_group_ = false;  // Since the scan began.
};

}  // namespace

absl::StatusOr<OpenedRun> OpenRunById(storage::RunReaders& readers,
                                      std::string_view run,
                                      std::string_view run_id) {
  MSITD_RETURN_IF_ERROR(CheckRunName(run));
  OpenedRun out;
  MSITD_ASSIGN_OR_RETURN(out.reader, readers.OpenRun(run));
  MSITD_ASSIGN_OR_RETURN(out.info, out.reader->GetInfo());
  out.id = storage::RunIdText(out.info);
  if (run_id.empty() || run_id == out.id) return out;
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound,
                 "run {} has gone: another has that name now", run),
      ErrorReason::kRunNotFound);
}

absl::StatusOr<storage::PartInfo> ToPart(const v1::PartAddress& address) {
  if (address.size_bytes() > kPartBytes) {
    return FieldInvalid(
        "part.size_bytes",
        fmt::format("{} is not in 0..{}", address.size_bytes(), kPartBytes));
  }
  if (address.offset() > kPartOffsetMax) {
    return FieldInvalid(
        "part.offset",
        fmt::format("{} is not in 0..{}", address.offset(), kPartOffsetMax));
  }
  storage::PartInfo out;
  out.place = {address.file(), address.offset()};
  out.bytes = address.size_bytes();
  out.hash = {address.hash_low(), address.hash_high()};
  return out;
}

std::unique_ptr<StreamSource<v1::DescribeRunResponse>> MakeDescription(
    storage::RunReaders& readers, const v1::DescribeRunRequest& request) {
  return std::make_unique<Description>(readers, request);
}

std::unique_ptr<StreamSource<v1::ListCoordinatesResponse>> MakeCoordinates(
    storage::RunReaders& readers, const v1::ListCoordinatesRequest& request) {
  return std::make_unique<Coordinates>(readers, request);
}

std::unique_ptr<StreamSource<v1::ScanTensorsResponse>> MakeEntries(
    storage::RunReaders& readers, const v1::ScanTensorsRequest& request) {
  return std::make_unique<Entries>(readers, request);
}

std::unique_ptr<StreamSource<v1::ReadPartsResponse>> MakeParts(
    storage::RunReaders& readers, const v1::ReadPartsRequest& request) {
  return std::make_unique<Parts>(readers, request);
}

std::unique_ptr<StreamSource<v1::ListDigestsResponse>> MakeDigests(
    storage::RunReaders& readers, const v1::ListDigestsRequest& request) {
  return std::make_unique<Digests>(readers, request);
}

}  // namespace msitd::service
