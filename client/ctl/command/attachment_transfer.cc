// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/attachment_transfer.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <utility>

#include "client/ctl/print/file_sink.h"
#include "client/ctl/print/progress.h"
#include "client/query/resuming_read.h"
#include "client/text/text.h"
#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/chunk/piecewise_hash.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

using Stub = v1::AttachmentService::Stub;

Outcome Write(Invocation& invocation, grpc::ClientContext& context,
              v1::WriteAttachmentRequest::Open open, std::string_view bytes,
              Progress& progress, v1::Attachment& written) {
  open.set_size_bytes(static_cast<int64_t>(bytes.size()));
  const auto writer =
      invocation.stub<Stub>().WriteAttachment(&context, &written);
  v1::WriteAttachmentRequest request;
  *request.mutable_open() = std::move(open);
  bool goes_on = writer->Write(request);
  for (size_t at = 0; goes_on && at < bytes.size();
       at += kAttachmentPieceBytesMax) {
    const std::string_view piece = bytes.substr(at, kAttachmentPieceBytesMax);
    request.set_data(piece.data(), piece.size());
    goes_on = writer->Write(request);
    progress.Show(fmt::format(
        "{} of {}", HumanSize(static_cast<int64_t>(at + piece.size())),
        HumanSize(static_cast<int64_t>(bytes.size()))));
  }
  if (goes_on) {
    request.mutable_commit()->set_hash(
        HashText(chunk::HashBytes(std::as_bytes(std::span(bytes)))));
    (void)writer->Write(request);
    (void)writer->WritesDone();
  }
  progress.Clear();
  return invocation.OutcomeOf(writer->Finish());
}

}  // namespace

Outcome WriteAttachment(Invocation& invocation,
                        v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  grpc::ClientContext context;
  context.set_deadline(invocation.StreamDeadline());
  const Interrupts::Hold hold(invocation.interrupts(), &context);
  Progress progress(invocation.options().progress,
                    invocation.options().terminal.stderr_width);
  return Write(invocation, context, std::move(open), bytes, progress, written);
}

Outcome WriteAttachment(Invocation& invocation, grpc::ClientContext& context,
                        v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  Progress progress(/*enabled=*/false, 0);
  return Write(invocation, context, std::move(open), bytes, progress, written);
}

Outcome ReadAttachmentBytes(Invocation& invocation, const std::string& run,
                            const std::string& name, const ByteSink& sink,
                            int64_t& size_bytes) {
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  v1::ReadAttachmentRequest request;
  request.set_run(run);
  request.set_name(name);
  chunk::PiecewiseHash hash;
  size_bytes = 0;
  ResumingRead<v1::ReadAttachmentResponse> reading(
      invocation, size_bytes,
      [&](grpc::ClientContext& context, int64_t offset_bytes) {
        request.set_offset_bytes(offset_bytes);
        return invocation.stub<Stub>().ReadAttachment(&context, request);
      },
      [&](std::string_view piece) -> absl::Status {
        hash.Add(piece);
        return sink(piece);
      },
      [&](const v1::ReadAttachmentResponse& response, int64_t& size) {
        if (!response.has_attachment()) return;
        size = size_bytes = response.attachment().size_bytes();
        // A stream that takes it up has to be of the same bytes.
        request.set_hash(response.attachment().hash());
      });
  MSITCTL_RETURN_IF_FAILED(reading.Run());
  if (HashText(hash.Get()) == request.hash()) return {};
  return invocation.OutcomeOf(
      grpc::Status(grpc::StatusCode::DATA_LOSS,
                   fmt::format("the bytes that came have the hash {}, not {}",
                               HashText(hash.Get()), request.hash())));
}

Outcome ReadAttachment(Invocation& invocation, const std::string& run,
                       const std::string& name, const std::string& out) {
  // Held from before the file is there, so that it goes when an interrupt does.
  const Interrupts::Hold hold(invocation.interrupts());
  auto sink =
      FileSink::Open(out, invocation.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return LocalError(Message(sink.status()));
  Progress progress(invocation.options().progress,
                    invocation.options().terminal.stderr_width);
  int64_t done_bytes = 0;
  int64_t size_bytes = 0;
  const ByteSink write = [&](std::string_view piece) -> absl::Status {
    MSITD_RETURN_IF_ERROR(sink->Write(piece));
    done_bytes += static_cast<int64_t>(piece.size());
    progress.Show(
        fmt::format("{} of {}", HumanSize(done_bytes), HumanSize(size_bytes)));
    return absl::OkStatus();
  };
  MSITCTL_RETURN_IF_FAILED(
      ReadAttachmentBytes(invocation, run, name, write, size_bytes));
  progress.Clear();
  const absl::Status committed = sink->Commit();
  return committed.ok() ? Outcome() : LocalError(Message(committed));
}

}  // namespace msitd::ctl
