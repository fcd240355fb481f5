// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "daemon/access/fair_shares.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/call_watch.h"
#include "daemon/service/call/task_pool.h"
#include "daemon/service/call/upload_call.h"
#include "msitd/v1/attachment_service.grpc.pb.h"
#include "storage/face/attachments.h"

namespace msitd::service {

// Limits of concurrent writes. attachment_service.proto states the defaults.
struct AttachmentWrites {
  size_t count_max = 8;
  UploadTimes times = {std::chrono::seconds(30), std::chrono::minutes(10)};
};

// Implements AttachmentService on the attachments of a store. All arguments
// must outlive it.
class AttachmentServiceImpl final
    : public BoundedService<v1::AttachmentService> {
 public:
  // The pipeline ensures that the owner of a run does not change during a call.
  AttachmentServiceImpl(storage::Attachments& attachments,
                        ingest::IngestPipeline& pipeline, CallPools pools,
                        const Admission& admission,
                        AttachmentWrites writes = {})
      : BoundedService(admission),
        attachments_(attachments),
        pipeline_(pipeline),
        pools_(pools),
        writes_(writes),
        write_shares_({.what = "attachments that are written",
                       .capacity = writes.count_max,
                       .reason = ErrorReason::kRequestsExhausted}) {
    Bound("GetAttachment", &AttachmentServiceImpl::GetAttachment);
    Bound("ListAttachments", &AttachmentServiceImpl::ListAttachments);
    Bound("DeleteAttachment", &AttachmentServiceImpl::DeleteAttachment);
    Bound("WriteAttachment", &AttachmentServiceImpl::WriteBytes);
    Bound("ReadAttachment", &AttachmentServiceImpl::ReadAttachment);
  }

  grpc::ServerUnaryReactor* GetAttachment(
      grpc::CallbackServerContext* context,
      const v1::GetAttachmentRequest* request,
      v1::Attachment* response) override;
  grpc::ServerUnaryReactor* ListAttachments(
      grpc::CallbackServerContext* context,
      const v1::ListAttachmentsRequest* request,
      v1::ListAttachmentsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteAttachment(
      grpc::CallbackServerContext* context,
      const v1::DeleteAttachmentRequest* request,
      google::protobuf::Empty* response) override;
  grpc::ServerWriteReactor<v1::ReadAttachmentResponse>* ReadAttachment(
      grpc::CallbackServerContext* context,
      const v1::ReadAttachmentRequest* request) override;

 private:
  class WriteSink;

  // Implements WriteAttachment.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* WriteBytes(
      grpc::CallbackServerContext& context, FirstReads& reads, CallPass pass);
  absl::Status List(const v1::ListAttachmentsRequest& request,
                    v1::ListAttachmentsResponse& response);

  storage::Attachments& attachments_;
  ingest::IngestPipeline& pipeline_;
  const CallPools pools_;
  const AttachmentWrites writes_;
  access::FairShares write_shares_;
  CallWatch watch_;
};

}  // namespace msitd::service
