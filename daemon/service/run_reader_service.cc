// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/run_reader_service.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "daemon/service/proto_convert.h"
#include "daemon/service/run_reader_streams.h"
#include "protos/base/resource_name.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"

namespace msitd::service {
namespace {

absl::Status DoGetEntry(storage::RunReaders& readers,
                        const v1::GetEntryRequest& request,
                        v1::GetEntryResponse& response) {
  const std::optional<TensorKey> key = ParseTensorName(request.name());
  if (!key.has_value()) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "name: '{}' is not the name of a tensor", request.name()),
        ErrorReason::kNameInvalid);
  }
  MSITD_ASSIGN_OR_RETURN(const OpenedRun run,
                         OpenRunById(readers, key->run, request.run_id()));
  MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo entry,
                         run.reader->GetTensor(*key));
  storage::EntryBatchWriter writer;
  writer.Add(entry);
  response.set_entries(writer.Finish());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::DescribeRunResponse>*
RunReaderServiceImpl::DescribeRun(grpc::CallbackServerContext* context,
                                  const v1::DescribeRunRequest* request) {
  return StreamCall<v1::DescribeRunResponse>::Start(
      pools_.queries, *context, MakeDescription(readers_, *request), &places_);
}

grpc::ServerWriteReactor<v1::ListCoordinatesResponse>*
RunReaderServiceImpl::ListCoordinates(
    grpc::CallbackServerContext* context,
    const v1::ListCoordinatesRequest* request) {
  return StreamCall<v1::ListCoordinatesResponse>::Start(
      pools_.queries, *context, MakeCoordinates(readers_, *request), &places_);
}

grpc::ServerWriteReactor<v1::ScanTensorsResponse>*
RunReaderServiceImpl::ScanTensors(grpc::CallbackServerContext* context,
                                  const v1::ScanTensorsRequest* request) {
  return StreamCall<v1::ScanTensorsResponse>::Start(
      pools_.queries, *context, MakeEntries(readers_, *request), &places_);
}

grpc::ServerUnaryReactor* RunReaderServiceImpl::GetEntry(
    grpc::CallbackServerContext* context, const v1::GetEntryRequest* request,
    v1::GetEntryResponse* response) {
  return UnaryCall::Start(pools_.queries, *context,
                          [=, this](const Call& /*call*/) {
                            return DoGetEntry(readers_, *request, *response);
                          });
}

grpc::ServerWriteReactor<v1::ReadPartsResponse>*
RunReaderServiceImpl::ReadParts(grpc::CallbackServerContext* context,
                                const v1::ReadPartsRequest* request) {
  return StreamCall<v1::ReadPartsResponse>::Start(
      pools_.queries, *context, MakeParts(readers_, *request), &places_);
}

grpc::ServerWriteReactor<v1::ListDigestsResponse>*
RunReaderServiceImpl::ListDigests(grpc::CallbackServerContext* context,
                                  const v1::ListDigestsRequest* request) {
  return StreamCall<v1::ListDigestsResponse>::Start(
      pools_.queries, *context, MakeDigests(readers_, *request), &places_);
}

}  // namespace msitd::service
