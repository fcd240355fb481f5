// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/attachment_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "client/ask/query/connection.h"
#include "client/ask/query/resuming_read.h"
#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/chunk/piecewise_hash.h"

namespace msitd::ask {
namespace {

using Stub = v1::AttachmentService::Stub;

}  // namespace

Outcome WriteAttachmentBytes(Connection& connection,
                             grpc::ClientContext& context,
                             v1::WriteAttachmentRequest::Open open,
                             std::string_view bytes,
                             const std::function<void(int64_t)>& on_sent,
                             v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(connection.Connect());
  open.set_size_bytes(static_cast<int64_t>(bytes.size()));
  const auto writer =
      connection.stub<Stub>().WriteAttachment(&context, &written);
  v1::WriteAttachmentRequest request;
  *request.mutable_open() = std::move(open);
  bool goes_on = writer->Write(request);
  for (size_t at = 0; goes_on && at < bytes.size();
       at += kAttachmentPieceBytesMax) {
    const std::string_view piece = bytes.substr(at, kAttachmentPieceBytesMax);
    request.set_data(piece.data(), piece.size());
    goes_on = writer->Write(request);
    if (on_sent) on_sent(static_cast<int64_t>(at + piece.size()));
  }
  if (goes_on) {
    request.mutable_commit()->set_hash(
        HashText(chunk::HashBytes(std::as_bytes(std::span(bytes)))));
    (void)writer->Write(request);
    (void)writer->WritesDone();
  }
  return connection.OutcomeOf(writer->Finish());
}

Outcome ReadAttachmentBytes(Connection& connection, const std::string& run,
                            const std::string& name, const ByteSink& sink,
                            int64_t& size_bytes, ReadLimit limit) {
  MSITCTL_RETURN_IF_FAILED(connection.Connect());
  v1::ReadAttachmentRequest request;
  request.set_run(run);
  request.set_name(name);
  chunk::PiecewiseHash hash;
  size_bytes = 0;
  ResumingRead<v1::ReadAttachmentResponse> reading(
      connection, size_bytes,
      [&](grpc::ClientContext& context, int64_t offset_bytes) {
        request.set_offset_bytes(offset_bytes);
        return connection.stub<Stub>().ReadAttachment(&context, request);
      },
      [&](std::string_view piece) -> absl::Status {
        hash.Add(piece);
        return sink(piece);
      },
      [&](const v1::ReadAttachmentResponse& response, int64_t& size) {
        if (!response.has_attachment()) return;
        size = size_bytes = response.attachment().size_bytes();
        // A stream that continues this one must have the same bytes.
        request.set_hash(response.attachment().hash());
      },
      limit);
  MSITCTL_RETURN_IF_FAILED(reading.Run());
  if (HashText(hash.Get()) == request.hash()) return {};
  return connection.OutcomeOf(
      grpc::Status(grpc::StatusCode::DATA_LOSS,
                   fmt::format("the received bytes have the hash {}, not {}",
                               HashText(hash.Get()), request.hash())));
}

}  // namespace msitd::ask
