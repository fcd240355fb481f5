// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/attachment_service.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/query/page_token.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/attachment_limits.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// Maximum size of a message: one piece and the other fields.
constexpr size_t kWriteMessageBytesMax =
    kAttachmentPieceBytesMax + kStreamRequestBytesMax;

void Describe(const std::string& run, const storage::AttachmentInfo& info,
              v1::Attachment& out) {
  out.set_run(run);
  out.set_name(info.name);
  out.set_media_type(info.media_type);
  out.set_size_bytes(static_cast<int64_t>(info.size_bytes));
  out.set_hash(HashText(info.hash));
  ToProto(info.create_time_ns, *out.mutable_create_time());
}

absl::StatusOr<storage::AttachmentSpec> ToSpec(
    const v1::WriteAttachmentRequest::Open& open) {
  MSITD_RETURN_IF_ERROR(CheckRunName(open.run()));
  MSITD_RETURN_IF_ERROR(
      CheckName("attachment name", open.name(), kAttachmentNameBytesMax));
  MSITD_RETURN_IF_ERROR(
      CheckName("media type", open.media_type(), kMediaTypeBytesMax));
  if (open.has_size_bytes() && open.size_bytes() < 0) {
    return FieldInvalid("open.size_bytes",
                        fmt::format("{} is negative", open.size_bytes()));
  }
  if (static_cast<uint64_t>(open.size_bytes()) > kAttachmentBytesMax) {
    return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                 "the attachment has {} bytes, at most {} are "
                                 "taken",
                                 open.size_bytes(), kAttachmentBytesMax),
                      ErrorReason::kAttachmentsExhausted);
  }
  return storage::AttachmentSpec{open.run(), open.name(), open.media_type(),
                                 open.replace()};
}

// Streams the bytes of one attachment. Borrows the attachments.
class ByteSource final : public StreamSource<v1::ReadAttachmentResponse> {
 public:
  ByteSource(storage::Attachments& attachments,
             const v1::ReadAttachmentRequest& request)
      : attachments_(attachments), request_(request) {}

  absl::StatusOr<StreamStep> Next(
      const Call& /*call*/, v1::ReadAttachmentResponse& message) override {
    if (!info_.has_value()) {
      MSITD_RETURN_IF_ERROR(Open());
      Describe(request_.run(), *info_, *message.mutable_attachment());
      message.set_offset_bytes(static_cast<int64_t>(offset_));
      return StreamStep::kMessage;
    }
    if (offset_ == info_->size_bytes) return StreamStep::kEnd;
    MSITD_ASSIGN_OR_RETURN(
        std::string bytes,
        attachments_.ReadAttachment(*info_, offset_, kAttachmentPieceBytesMax));
    message.set_offset_bytes(static_cast<int64_t>(offset_));
    offset_ += bytes.size();
    message.set_data(std::move(bytes));
    return StreamStep::kMessage;
  }

 private:
  absl::Status Open() {
    MSITD_ASSIGN_OR_RETURN(
        storage::AttachmentInfo info,
        attachments_.GetAttachment(request_.run(), request_.name()));
    if (!request_.hash().empty() && request_.hash() != HashText(info.hash)) {
      return WithReason(
          MakeStatus(absl::StatusCode::kNotFound,
                     "attachment {} has other bytes: their hash is {}",
                     request_.name(), HashText(info.hash)),
          ErrorReason::kAttachmentNotFound);
    }
    const int64_t offset = request_.offset_bytes();
    if (offset < 0 || static_cast<uint64_t>(offset) > info.size_bytes) {
      return WithReason(
          MakeStatus(absl::StatusCode::kOutOfRange, "offset {} is not in 0..{}",
                     offset, info.size_bytes),
          ErrorReason::kOffsetOutOfRange);
    }
    offset_ = static_cast<uint64_t>(offset);
    info_ = std::move(info);
    return absl::OkStatus();
  }

  storage::Attachments& attachments_;
  const v1::ReadAttachmentRequest request_;
  std::optional<storage::AttachmentInfo> info_;
  uint64_t offset_ = 0;
};

}  // namespace

using Upload = UploadCall<v1::WriteAttachmentRequest, v1::Attachment>;

class AttachmentServiceImpl::WriteSink final
    : public UploadSink<v1::WriteAttachmentRequest, v1::Attachment> {
 public:
  WriteSink(AttachmentServiceImpl& service, CallPass pass)
      : service_(service), pass_(std::move(pass)) {}
  ~WriteSink() override { pass_.Note(status_); }

  absl::StatusOr<bool> Take(const Call& /*call*/,
                            const v1::WriteAttachmentRequest& request,
                            v1::Attachment& response) override {
    absl::StatusOr<bool> is_done = TakeMessage(request, response);
    if (!is_done.ok() || *is_done) status_ = is_done.status();
    return is_done;
  }

 private:
  absl::StatusOr<bool> TakeMessage(const v1::WriteAttachmentRequest& request,
                                   v1::Attachment& response) {
    const bool is_open =
        request.message_case() == v1::WriteAttachmentRequest::kOpen;
    if (is_open != (writer_ == nullptr)) {
      return FieldInvalid("message", is_open ? "the attachment is open already"
                                             : "the first one does not open");
    }
    switch (request.message_case()) {
      case v1::WriteAttachmentRequest::kOpen:
        MSITD_RETURN_IF_ERROR(Open(request.open()));
        return false;
      case v1::WriteAttachmentRequest::kData:
        MSITD_RETURN_IF_ERROR(Append(request.data()));
        return false;
      case v1::WriteAttachmentRequest::kCommit:
        MSITD_RETURN_IF_ERROR(Commit(request.commit(), response));
        return true;
      case v1::WriteAttachmentRequest::MESSAGE_NOT_SET:
        break;
    }
    return FieldInvalid("message", "is none that is known here");
  }

  absl::Status Open(const v1::WriteAttachmentRequest::Open& open) {
    MSITD_RETURN_IF_ERROR(pass_.CheckRequest(open));
    MSITD_ASSIGN_OR_RETURN(storage::AttachmentSpec spec, ToSpec(open));
    MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                           service_.write_shares_.Acquire(pass_.caller()));
    MSITD_ASSIGN_OR_RETURN(writer_, service_.attachments_.Begin(spec));
    share_ = std::move(share);
    run_ = open.run();
    if (open.has_size_bytes()) size_bytes_ = open.size_bytes();
    return absl::OkStatus();
  }

  absl::Status Append(const std::string& data) {
    if (data.empty()) return FieldInvalid("data", "is empty");
    if (data.size() > kAttachmentPieceBytesMax) {
      return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                   "a piece of {} bytes, at most {} are taken",
                                   data.size(), kAttachmentPieceBytesMax),
                        ErrorReason::kRequestTooLarge);
    }
    taken_bytes_ += static_cast<int64_t>(data.size());
    if (size_bytes_.value_or(taken_bytes_) < taken_bytes_) return OtherSize();
    return writer_->Append(data);
  }

  absl::Status Commit(const v1::WriteAttachmentRequest::Commit& commit,
                      v1::Attachment& response) {
    if (size_bytes_.value_or(taken_bytes_) != taken_bytes_) return OtherSize();
    const std::string hash = HashText(writer_->hash());
    if (!commit.hash().empty() && commit.hash() != hash) {
      return FieldInvalid("commit.hash",
                          fmt::format("the bytes that came have {}", hash));
    }
    MSITD_ASSIGN_OR_RETURN(const storage::AttachmentInfo info,
                           writer_->Commit());
    Describe(run_, info, response);
    return absl::OkStatus();
  }

  absl::Status OtherSize() const {
    return FieldInvalid("open.size_bytes",
                        fmt::format("{} bytes were announced, {} have come",
                                    *size_bytes_, taken_bytes_));
  }

  AttachmentServiceImpl& service_;
  CallPass pass_;
  absl::Status status_ = absl::CancelledError("it was not written to its end");
  access::FairShares::Grant share_;  // Held for the lifetime of the writer.
  std::unique_ptr<storage::AttachmentWriter> writer_;
  std::string run_;
  std::optional<int64_t> size_bytes_;  // As announced by the client.
  int64_t taken_bytes_ = 0;
};

absl::Status AttachmentServiceImpl::List(
    const v1::ListAttachmentsRequest& request,
    v1::ListAttachmentsResponse& response) {
  MSITD_ASSIGN_OR_RETURN(const int page_size, ToPageSize(request.page_size()));
  const std::string key = "ListAttachments " + request.run();
  MSITD_ASSIGN_OR_RETURN(const std::string after,
                         query::DecodePageToken(key, request.page_token()));
  MSITD_ASSIGN_OR_RETURN(
      std::vector<storage::AttachmentInfo> found,
      attachments_.ListAttachments(request.run(), after,
                                   static_cast<size_t>(page_size) + 1));
  const bool has_more = found.size() > static_cast<size_t>(page_size);
  if (has_more) found.pop_back();
  for (const storage::AttachmentInfo& info : found) {
    Describe(request.run(), info, *response.add_attachments());
  }
  if (has_more) {
    response.set_next_page_token(
        query::EncodePageToken(key, found.back().name));
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AttachmentServiceImpl::GetAttachment(
    grpc::CallbackServerContext* context,
    const v1::GetAttachmentRequest* request, v1::Attachment* response) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call&) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(
            const storage::AttachmentInfo info,
            attachments_.GetAttachment(request->run(), request->name()));
        Describe(request->run(), info, *response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AttachmentServiceImpl::ListAttachments(
    grpc::CallbackServerContext* context,
    const v1::ListAttachmentsRequest* request,
    v1::ListAttachmentsResponse* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    return List(*request, *response);
  });
}

grpc::ServerUnaryReactor* AttachmentServiceImpl::DeleteAttachment(
    grpc::CallbackServerContext* context,
    const v1::DeleteAttachmentRequest* request, google::protobuf::Empty*) {
  return UnaryCall::Start(
      pools_.control, *context, [=, this](const Call& call) {
        return pipeline_.runs().ChangeRun(request->run(), call.caller(), [&] {
          return attachments_.DeleteAttachment(request->run(), request->name());
        });
      });
}

grpc::ServerWriteReactor<v1::ReadAttachmentResponse>*
AttachmentServiceImpl::ReadAttachment(
    grpc::CallbackServerContext* context,
    const v1::ReadAttachmentRequest* request) {
  return StreamCall<v1::ReadAttachmentResponse>::Start(
      pools_.queries, *context,
      std::make_unique<ByteSource>(attachments_, *request));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
AttachmentServiceImpl::WriteBytes(grpc::CallbackServerContext& context,
                                  FirstReads& reads, CallPass pass) {
  return new Upload({.pool = pools_.queries,
                     .first_reads = reads,
                     .watch = watch_,
                     .message_bytes_max = kWriteMessageBytesMax,
                     .times = writes_.times},
                    context,
                    std::make_unique<WriteSink>(*this, std::move(pass)));
}

}  // namespace msitd::service
