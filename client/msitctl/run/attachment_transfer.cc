// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/attachment_transfer.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "client/ask/print/file_sink.h"
#include "client/ask/print/progress.h"
#include "client/ask/query/attachment_bytes.h"
#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::msitctl {

ask::Outcome WriteAttachment(Invocation& invocation,
                             v1::WriteAttachmentRequest::Open open,
                             std::string_view bytes, v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  grpc::ClientContext context;
  context.set_deadline(invocation.StreamDeadline());
  const ask::Interrupts::Hold hold(invocation.interrupts(), &context);
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  return ask::WriteAttachmentBytes(
      invocation, context, std::move(open), bytes,
      [&](int64_t sent_bytes) {
        progress.Show(
            fmt::format("{} of {}", ask::HumanSize(sent_bytes),
                        ask::HumanSize(static_cast<int64_t>(bytes.size()))),
            static_cast<double>(sent_bytes), static_cast<double>(bytes.size()));
      },
      written);
}

ask::Outcome ReadAttachment(Invocation& invocation, const std::string& run,
                            const std::string& name, const std::string& out) {
  // Held before the file is created, so that an interrupt removes it.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  auto sink = ask::FileSink::Open(
      out, invocation.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return ask::LocalError(Message(sink.status()));
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  int64_t done_bytes = 0;
  int64_t size_bytes = 0;
  const ask::ByteSink write = [&](std::string_view piece) -> absl::Status {
    MSITD_RETURN_IF_ERROR(sink->Write(piece));
    done_bytes += static_cast<int64_t>(piece.size());
    progress.Show(fmt::format("{} of {}", ask::HumanSize(done_bytes),
                              ask::HumanSize(size_bytes)),
                  static_cast<double>(done_bytes),
                  static_cast<double>(size_bytes));
    return absl::OkStatus();
  };
  MSITCTL_RETURN_IF_FAILED(
      ask::ReadAttachmentBytes(invocation, run, name, write, size_bytes));
  progress.Clear();
  const absl::Status committed = sink->Commit();
  return committed.ok() ? ask::Outcome() : ask::LocalError(Message(committed));
}

}  // namespace msitd::msitctl
