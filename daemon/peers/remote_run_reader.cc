// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/remote_run_reader.h"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/peers/peer.h"
#include "daemon/peers/peer_stream.h"
#include "daemon/peers/remote_parts.h"
#include "daemon/peers/remote_scan.h"
#include "daemon/peers/run_messages.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/base/sample.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"

namespace msitd::peers {
namespace {

using DigestStream =
    PeerStream<v1::ListDigestsRequest, v1::ListDigestsResponse>;
using Api = v1::RunReaderService::StubInterface::async_interface;

constexpr size_t kRunIdBytesMax = 128;

class RemoteRunReader final : public storage::RunReader {
 public:
  RemoteRunReader(std::shared_ptr<Peer> peer, std::string_view name)
      : peer_(std::move(peer)), run_{std::string(name), ""} {}

  // Must be called first, by a single thread.
  absl::Status Open() {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, GetInfo());
    is_open_ = true;
    if (info.sealed) return absl::OkStatus();
    return WithReason(
        MakeStatus(absl::StatusCode::kFailedPrecondition,
                   "peer {}: run {} is not sealed, and only sealed runs are "
                   "read from other daemons",
                   peer_->endpoint(), run_.name),
        ErrorReason::kFieldInvalid);
  }

  const std::string& name() const override { return run_.name; }

  bool is_far() const override { return true; }

  absl::StatusOr<storage::RunInfo> GetInfo() override {
    storage::RunInfo out;
    MSITD_RETURN_IF_ERROR(Describe(
        v1::DescribeRunRequest::DETAIL_UNSPECIFIED, out,
        [](const v1::DescribeRunResponse&) { return NeverStop(); }, [] {}));
    return out;
  }

  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage() override {
    std::vector<storage::RankCoverage> out;
    storage::RunInfo info;
    MSITD_RETURN_IF_ERROR(Describe(
        v1::DescribeRunRequest::COVERAGE, info,
        [&out](const v1::DescribeRunResponse& message) -> absl::Status {
          for (const auto& coverage : message.coverage()) {
            MSITD_ASSIGN_OR_RETURN(const storage::RankCoverage rank,
                                   ToCoverage(coverage));
            if (!out.empty() && out.back().rank >= rank.rank) {
              return absl::DataLossError("coverage is out of order");
            }
            out.push_back(rank);
          }
          return absl::OkStatus();
        },
        [&out] { out.clear(); }));
    return out;
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    std::vector<int32_t> out;
    storage::RunInfo info;
    MSITD_RETURN_IF_ERROR(Describe(
        v1::DescribeRunRequest::RANKS, info,
        [&out](const v1::DescribeRunResponse& message) -> absl::Status {
          for (const int32_t rank : message.ranks()) {
            const int32_t last = out.empty() ? -1 : out.back();
            if (rank <= last || rank > kRankMax) {
              return absl::DataLossError("ranks are out of order");
            }
            out.push_back(rank);
          }
          return absl::OkStatus();
        },
        [&out] { out.clear(); }));
    return out;
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    std::vector<std::string> out;
    storage::RunInfo info;
    MSITD_RETURN_IF_ERROR(Describe(
        v1::DescribeRunRequest::PLACEMENTS, info,
        [&out](const v1::DescribeRunResponse& message) -> absl::Status {
          for (const std::string& placement : message.placements()) {
            if (out.size() == storage::kRunPlacementsMax ||
                placement.size() > kPlacementBytesMax) {
              return absl::DataLossError("placements are too many or too long");
            }
            out.push_back(placement);
          }
          return absl::OkStatus();
        },
        [&out] { out.clear(); }));
    return out;
  }

  absl::StatusOr<std::vector<storage::Coordinate>> ListCoordinates(
      const Selector& selector) override {
    std::vector<storage::Coordinate> out;
    Selector asked;
    asked.ranks = selector.ranks;
    asked.devices = selector.devices;
    asked.tokens = selector.tokens;
    for (const v1::TensorFilter& filter : ToFilters(asked)) {
      v1::ListCoordinatesRequest request;
      *request.mutable_filter() = filter;
      const size_t before = out.size();
      MSITD_RETURN_IF_ERROR(
          (ReadAll<v1::ListCoordinatesRequest, v1::ListCoordinatesResponse>)(
              &Api::ListCoordinates, request,
              [&out](const v1::ListCoordinatesResponse& message) {
                return AddCoordinates(message, out);
              },
              [&out, before] { out.resize(before); }));
    }
    std::erase_if(out, [&selector](const storage::Coordinate& at) {
      return !selector.HasDevice(at.device);
    });
    for (const storage::Coordinate& at : out) {
      if (!selector.HasRank(at.rank) || !selector.HasToken(at.token)) {
        return peer_->FailByGarbage("nobody asked for a coordinate of it");
      }
    }
    return out;
  }

  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    return RemoteScan::Begin(*peer_, run_, std::move(selector), position);
  }

  absl::StatusOr<storage::TensorInfo> GetTensor(const TensorKey& key) override {
    TensorKey whole = key;
    whole.run = run_.name;
    v1::GetEntryRequest request;
    request.set_name(FormatTensorName(whole));
    request.set_run_id(run_.id);
    v1::GetEntryResponse response;
    MSITD_RETURN_IF_ERROR(
        Call(&v1::RunReaderService::Stub::GetEntry, request, response));
    auto batch = storage::EntryBatchReader::Open(
        std::move(*response.mutable_entries()), run_.name);
    if (!batch.ok()) return peer_->FailByGarbage(Message(batch.status()));
    storage::TensorInfo out;
    const absl::StatusOr<bool> found = batch->Next(out);
    if (!found.ok()) return peer_->FailByGarbage(Message(found.status()));
    if (!*found || batch->entry_count() != 1 || out.key != whole ||
        !IsOfPeer(out)) {
      return peer_->FailByGarbage("another tensor than was asked for");
    }
    return out;
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const storage::PartInfo& part, AlignedBuffer& buffer) override {
    return RemoteParts(*peer_, run_, PiecesOf(std::span(&part, 1)), buffer)
        .Read(0);
  }

  std::unique_ptr<storage::PartBatch> ReadParts(
      std::span<const storage::PartInfo> parts,
      AlignedBuffer& buffer) override {
    return std::make_unique<RemoteParts>(*peer_, run_, PiecesOf(parts), buffer);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const storage::TensorInfo& tensor, size_t part,
      AlignedBuffer& buffer) override {
    const storage::SamplePart sample = storage::SamplePartOf(tensor, part);
    return RemoteParts(*peer_, run_, PiecesOf(std::span(&sample, 1)), buffer)
        .Read(0);
  }

  std::unique_ptr<storage::PartBatch> ReadSamples(
      std::span<const storage::SamplePart> samples,
      AlignedBuffer& buffer) override {
    return std::make_unique<RemoteParts>(*peer_, run_, PiecesOf(samples),
                                         buffer);
  }

  // See peers::ReadDigests.
  absl::Status ReadDigests(const Selector& selector, storage::StopCheck stop,
                           const TakeDigest& take) {
    for (const v1::TensorFilter& filter : ToFilters(selector)) {
      v1::ListDigestsRequest request;
      request.set_run(run_.name);
      request.set_run_id(run_.id);
      *request.mutable_filter() = filter;
      MSITD_RETURN_IF_ERROR(ReadDigests(request, stop, take));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadDigests(v1::ListDigestsRequest& request,
                           storage::StopCheck stop, const TakeDigest& take) {
    Retries retries(*peer_);
    std::unique_ptr<DigestStream> stream;
    v1::ListDigestsResponse message;
    while (!message.is_last()) {
      MSITD_RETURN_IF_ERROR(peer_->Check());
      MSITD_RETURN_IF_ERROR(stop());
      if (stream == nullptr) {
        stream =
            std::make_unique<DigestStream>(*peer_, &Api::ListDigests, request);
      }
      bool is_stopped = false;
      const absl::StatusOr<bool> found =
          stream->Next(message, [&stop, &is_stopped] {
            absl::Status status = stop();
            is_stopped = !status.ok();
            return status;
          });
      if (is_stopped) return found.status();
      if (!found.ok()) {
        stream = nullptr;
        message.Clear();
        MSITD_RETURN_IF_ERROR(retries.Await(found.status(), stop));
        continue;
      }
      if (!*found) {
        return peer_->FailByGarbage("a stream ended before its end");
      }
      retries.NoteProgress();
      request.set_position(message.position());
      if (message.version() != query::kGroupDigestVersion) {
        return absl::UnimplementedError("digests of another version");
      }
      for (const auto& digest : message.digests()) {
        const absl::Status status =
            take({{digest.rank(), digest.device(), digest.token()},
                  static_cast<uint64_t>(digest.record_count()),
                  {digest.hash_low(), digest.hash_high()}});
        if (absl::IsDataLoss(status)) {
          return peer_->FailByGarbage(Message(status));
        }
        MSITD_RETURN_IF_ERROR(status);
      }
    }
    return absl::OkStatus();
  }

  // Reads a stream to its end. If the stream breaks off, calls `forget` and
  // reads it again from the beginning. The last message is marked as the last.
  template <typename Request, typename Response>
  absl::Status ReadAll(typename PeerStream<Request, Response>::Method method,
                       Request request,
                       absl::FunctionRef<absl::Status(const Response&)> take,
                       absl::FunctionRef<void()> forget) {
    request.set_run(run_.name);
    request.set_run_id(run_.id);
    Retries retries(*peer_);
    while (true) {
      MSITD_RETURN_IF_ERROR(peer_->Check());
      forget();
      PeerStream<Request, Response> stream(*peer_, method, request);
      Response message;
      while (true) {
        const absl::StatusOr<bool> found = stream.Next(message, NeverStop);
        if (!found.ok()) {
          // The code that opens a run does its own retries.
          if (!is_open_) {
            if (absl::IsUnavailable(found.status())) peer_->GiveUpConnection();
            return found.status();
          }
          MSITD_RETURN_IF_ERROR(retries.Await(found.status(), NeverStop));
          break;
        }
        if (!*found) {
          return peer_->FailByGarbage("a stream ended before its end");
        }
        if (const absl::Status status = take(message); !status.ok()) {
          return peer_->FailByGarbage(Message(status));
        }
        if (message.is_last()) return absl::OkStatus();
      }
    }
  }

  // Reads the information about the run into `info`. The first call determines
  // which run it is.
  absl::Status Describe(
      v1::DescribeRunRequest::Detail detail, storage::RunInfo& info,
      absl::FunctionRef<absl::Status(const v1::DescribeRunResponse&)> take,
      absl::FunctionRef<void()> forget) {
    v1::DescribeRunRequest request;
    request.set_detail(detail);
    bool is_first = true;
    return (ReadAll<v1::DescribeRunRequest, v1::DescribeRunResponse>)(
        &Api::DescribeRun, request,
        [&](const v1::DescribeRunResponse& message) -> absl::Status {
          if (message.run_id().empty() ||
              message.run_id().size() > kRunIdBytesMax) {
            return absl::DataLossError("a run without an id");
          }
          if (run_.id.empty()) run_.id = message.run_id();
          if (message.run_id() != run_.id) {
            return absl::DataLossError("another run than was asked for");
          }
          if (std::exchange(is_first, false)) {
            MSITD_ASSIGN_OR_RETURN(info, ToRunInfo(message));
            if (info.spec.name != run_.name) {
              return absl::DataLossError("another run than was asked for");
            }
          }
          return take(message);
        },
        [&] {
          is_first = true;
          forget();
        });
  }

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::RunReaderService::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    Retries retries(*peer_);
    while (true) {
      MSITD_RETURN_IF_ERROR(peer_->Check());
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + peer_->timeout());
      const absl::Status status = peer_->ToStatus(
          (peer_->stub().*method)(&context, request, &response));
      if (status.ok()) return status;
      MSITD_RETURN_IF_ERROR(retries.Await(status, NeverStop));
    }
  }

  const std::shared_ptr<Peer> peer_;
  // Constant after Open.
  RemoteRun run_;
  bool is_open_ = false;
};

}  // namespace

absl::StatusOr<RemoteRunReaderParts> OpenRemoteRun(std::shared_ptr<Peer> peer,
                                                   std::string_view run) {
  auto reader = std::make_unique<RemoteRunReader>(std::move(peer), run);
  MSITD_RETURN_IF_ERROR(reader->Open());
  RemoteRunReaderParts out;
  out.read_digests = [&of = *reader](const Selector& selector,
                                     storage::StopCheck stop,
                                     const TakeDigest& take) {
    return of.ReadDigests(selector, stop, take);
  };
  out.reader = std::move(reader);
  return out;
}

}  // namespace msitd::peers
