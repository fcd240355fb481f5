// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/attachment_transfer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "client/ctl/print/file_sink.h"
#include "client/ctl/print/progress.h"
#include "client/text/text.h"
#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/chunk/piecewise_hash.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

using Stub = v1::AttachmentService::Stub;

// As when tensors are read.
constexpr int kFruitlessReadsMax = 6;
constexpr std::chrono::milliseconds kFirstDelay(100);

class Reading {
 public:
  Reading(Session& session, v1::ReadAttachmentRequest request, FileSink& sink)
      : session_(session),
        request_(std::move(request)),
        sink_(sink),
        progress_(session.options().progress,
                  session.options().terminal.stderr_width) {}

  Outcome Run() {
    int fruitless_count = 0;
    while (true) {
      const int64_t offset_before = request_.offset_bytes();
      const grpc::Status status = ReadStream();
      if (!sink_status_.ok()) return LocalError(Message(sink_status_));
      if (status.ok()) break;
      fruitless_count =
          request_.offset_bytes() > offset_before ? 0 : fruitless_count + 1;
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
          fruitless_count == kFruitlessReadsMax ||
          session_.interrupts().WaitFor(kFirstDelay * (1 << fruitless_count))) {
        return session_.OutcomeOf(status);
      }
    }
    progress_.Clear();
    if (HashText(hash_.Get()) == request_.hash()) return {};
    return session_.OutcomeOf(
        grpc::Status(grpc::StatusCode::DATA_LOSS,
                     fmt::format("the bytes that came have the hash {}, not {}",
                                 HashText(hash_.Get()), request_.hash())));
  }

 private:
  // OK once the last byte is written.
  grpc::Status ReadStream() {
    grpc::ClientContext context;
    context.set_deadline(session_.StreamDeadline());
    const Interrupts::Hold hold(session_.interrupts(), &context);
    const auto reader =
        session_.stub<Stub>().ReadAttachment(&context, request_);
    v1::ReadAttachmentResponse response;
    while (reader->Read(&response)) {
      const grpc::Status status = Take(response);
      if (!status.ok()) {
        context.TryCancel();
        reader->Finish();
        return status;
      }
    }
    const grpc::Status status = reader->Finish();
    if (status.ok() && request_.offset_bytes() != size_bytes_) {
      return grpc::Status(
          grpc::StatusCode::UNAVAILABLE,
          fmt::format("the daemon ended the stream after {} of {} bytes",
                      request_.offset_bytes(), size_bytes_));
    }
    return status;
  }

  grpc::Status Take(const v1::ReadAttachmentResponse& response) {
    if (response.has_attachment()) {
      size_bytes_ = response.attachment().size_bytes();
      request_.set_hash(response.attachment().hash());
    }
    const auto size = static_cast<int64_t>(response.data().size());
    const int64_t offset = request_.offset_bytes();
    if (response.offset_bytes() != offset || size > size_bytes_ - offset) {
      return grpc::Status(
          grpc::StatusCode::INTERNAL,
          fmt::format("the daemon sent {} bytes at {}; {} of {} were read",
                      size, response.offset_bytes(), offset, size_bytes_));
    }
    sink_status_ = sink_.Write(response.data());
    if (!sink_status_.ok()) return grpc::Status::CANCELLED;
    hash_.Add(response.data());
    request_.set_offset_bytes(offset + size);
    progress_.Show(fmt::format("{} of {}", HumanSize(offset + size),
                               HumanSize(size_bytes_)));
    return grpc::Status::OK;
  }

  Session& session_;
  v1::ReadAttachmentRequest request_;
  FileSink& sink_;
  Progress progress_;
  int64_t size_bytes_ = 0;
  chunk::PiecewiseHash hash_;
  absl::Status sink_status_;
};

}  // namespace

Outcome WriteAttachment(Session& session, v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(session.Connect());
  open.set_size_bytes(static_cast<int64_t>(bytes.size()));
  grpc::ClientContext context;
  context.set_deadline(session.StreamDeadline());
  const Interrupts::Hold hold(session.interrupts(), &context);
  const auto writer = session.stub<Stub>().WriteAttachment(&context, &written);
  v1::WriteAttachmentRequest request;
  *request.mutable_open() = std::move(open);
  bool goes_on = writer->Write(request);
  Progress progress(session.options().progress,
                    session.options().terminal.stderr_width);
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
  return session.OutcomeOf(writer->Finish());
}

Outcome ReadAttachment(Session& session, const std::string& run,
                       const std::string& name, const std::string& out) {
  // Held from before the file is there, so that it goes when an interrupt does.
  const Interrupts::Hold hold(session.interrupts());
  auto sink =
      FileSink::Open(out, session.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return LocalError(Message(sink.status()));
  MSITCTL_RETURN_IF_FAILED(session.Connect());
  v1::ReadAttachmentRequest request;
  request.set_run(run);
  request.set_name(name);
  MSITCTL_RETURN_IF_FAILED(Reading(session, std::move(request), *sink).Run());
  const absl::Status committed = sink->Commit();
  return committed.ok() ? Outcome() : LocalError(Message(committed));
}

}  // namespace msitd::ctl
