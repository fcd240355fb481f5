// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/stream_places.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "storage/face/run_reader.h"

namespace msitd::service {

// Implements RunReaderService on the runs of a store. All arguments must
// outlive it.
class RunReaderServiceImpl final : public BoundedService<v1::RunReaderService> {
 public:
  RunReaderServiceImpl(storage::RunReaders& readers, CallPools pools,
                       const Admission& admission)
      : BoundedService(admission), readers_(readers), pools_(pools) {
    Bound("DescribeRun", &RunReaderServiceImpl::DescribeRun);
    Bound("ListCoordinates", &RunReaderServiceImpl::ListCoordinates);
    Bound("ScanTensors", &RunReaderServiceImpl::ScanTensors);
    Bound("GetEntry", &RunReaderServiceImpl::GetEntry);
    Bound("ReadParts", &RunReaderServiceImpl::ReadParts);
    Bound("ListDigests", &RunReaderServiceImpl::ListDigests);
  }

  grpc::ServerWriteReactor<v1::DescribeRunResponse>* DescribeRun(
      grpc::CallbackServerContext* context,
      const v1::DescribeRunRequest* request) override;
  grpc::ServerWriteReactor<v1::ListCoordinatesResponse>* ListCoordinates(
      grpc::CallbackServerContext* context,
      const v1::ListCoordinatesRequest* request) override;
  grpc::ServerWriteReactor<v1::ScanTensorsResponse>* ScanTensors(
      grpc::CallbackServerContext* context,
      const v1::ScanTensorsRequest* request) override;
  grpc::ServerUnaryReactor* GetEntry(grpc::CallbackServerContext* context,
                                     const v1::GetEntryRequest* request,
                                     v1::GetEntryResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadPartsResponse>* ReadParts(
      grpc::CallbackServerContext* context,
      const v1::ReadPartsRequest* request) override;
  grpc::ServerWriteReactor<v1::ListDigestsResponse>* ListDigests(
      grpc::CallbackServerContext* context,
      const v1::ListDigestsRequest* request) override;

 private:
  storage::RunReaders& readers_;
  const CallPools pools_;
  StreamPlaces places_;
};

}  // namespace msitd::service
