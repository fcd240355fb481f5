// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/run_reader_service.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/service/proto_convert.h"
#include "daemon/service/run_reader_streams.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
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

// A sample is found in a tensor that has the part, whatever its others are.
absl::StatusOr<storage::TensorInfo> ToSampledTensor(
    const v1::ReadSampleRequest& request) {
  storage::TensorInfo out;
  out.dtype = static_cast<DType>(request.dtype());
  if (request.dtype() < 0 || request.dtype() >= kDTypeCount ||
      !IsValid(out.dtype)) {
    return FieldInvalid("dtype", fmt::format("{} is none", request.dtype()));
  }
  out.tensor_bytes = static_cast<uint64_t>(request.tensor_size_bytes());
  if (request.tensor_size_bytes() < 0 || out.tensor_bytes > kTensorBytesMax) {
    return FieldInvalid(
        "tensor_size_bytes",
        fmt::format("{} is not in 0..{}", request.tensor_size_bytes(),
                    kTensorBytesMax));
  }
  const int64_t number = request.part_number();
  const auto begin = static_cast<uint64_t>(number) * kPartBytes;
  if (number < 0 || number > static_cast<int64_t>(kTensorBytesMax) ||
      (begin >= out.tensor_bytes && number > 0)) {
    return FieldInvalid("part_number",
                        fmt::format("the tensor has no part {}", number));
  }
  MSITD_ASSIGN_OR_RETURN(storage::PartInfo part, ToPart(request.part()));
  if (part.bytes != std::min(kPartBytes, out.tensor_bytes - begin)) {
    return FieldInvalid(
        "part.size_bytes",
        fmt::format("{} is not what part {} has", part.bytes, number));
  }
  part.has_bytes = request.has_bytes();
  part.has_sample = request.has_sample();
  part.sample_hash = request.sample_hash();
  out.has_bytes = part.has_bytes;
  out.has_sample = part.has_sample;
  out.parts.resize(static_cast<size_t>(number) + 1);
  out.parts.back() = part;
  return out;
}

absl::Status DoReadSample(storage::RunReaders& readers,
                          const v1::ReadSampleRequest& request,
                          v1::ReadSampleResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo tensor,
                         ToSampledTensor(request));
  MSITD_ASSIGN_OR_RETURN(const OpenedRun run,
                         OpenRunById(readers, request.run(), request.run_id()));
  AlignedBuffer buffer;
  MSITD_ASSIGN_OR_RETURN(
      const std::span<const std::byte> sample,
      run.reader->ReadSample(tensor, tensor.parts.size() - 1, buffer));
  response.set_data(sample.data(), sample.size());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::DescribeRunResponse>*
RunReaderServiceImpl::DescribeRun(grpc::CallbackServerContext* context,
                                  const v1::DescribeRunRequest* request) {
  return StreamCall<v1::DescribeRunResponse>::Start(
      pools_.queries, *context, MakeDescription(readers_, *request));
}

grpc::ServerWriteReactor<v1::ListCoordinatesResponse>*
RunReaderServiceImpl::ListCoordinates(
    grpc::CallbackServerContext* context,
    const v1::ListCoordinatesRequest* request) {
  return StreamCall<v1::ListCoordinatesResponse>::Start(
      pools_.queries, *context, MakeCoordinates(readers_, *request));
}

grpc::ServerWriteReactor<v1::ScanTensorsResponse>*
RunReaderServiceImpl::ScanTensors(grpc::CallbackServerContext* context,
                                  const v1::ScanTensorsRequest* request) {
  return StreamCall<v1::ScanTensorsResponse>::Start(
      pools_.queries, *context, MakeEntries(readers_, *request));
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
      pools_.queries, *context, MakeParts(readers_, *request));
}

grpc::ServerUnaryReactor* RunReaderServiceImpl::ReadSample(
    grpc::CallbackServerContext* context, const v1::ReadSampleRequest* request,
    v1::ReadSampleResponse* response) {
  return UnaryCall::Start(pools_.queries, *context,
                          [=, this](const Call& /*call*/) {
                            return DoReadSample(readers_, *request, *response);
                          });
}

grpc::ServerWriteReactor<v1::ListDigestsResponse>*
RunReaderServiceImpl::ListDigests(grpc::CallbackServerContext* context,
                                  const v1::ListDigestsRequest* request) {
  return StreamCall<v1::ListDigestsResponse>::Start(
      pools_.queries, *context, MakeDigests(readers_, *request));
}

}  // namespace msitd::service
