// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/attachment_transfer.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "client/ctl/print/file_sink.h"
#include "client/ctl/print/progress.h"
#include "client/query/attachment_bytes.h"
#include "client/text/text.h"
#include "protos/status/status.h"

namespace msitd::ctl {

Outcome WriteAttachment(Invocation& invocation,
                        v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written) {
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  grpc::ClientContext context;
  context.set_deadline(invocation.StreamDeadline());
  const Interrupts::Hold hold(invocation.interrupts(), &context);
  Progress progress(invocation.options().progress,
                    invocation.options().terminal.stderr_width);
  return WriteAttachmentBytes(
      invocation, context, std::move(open), bytes,
      [&](int64_t sent_bytes) {
        progress.Show(
            fmt::format("{} of {}", HumanSize(sent_bytes),
                        HumanSize(static_cast<int64_t>(bytes.size()))));
      },
      written);
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
