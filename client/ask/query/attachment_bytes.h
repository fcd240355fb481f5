// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "client/ask/query/byte_sink.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/attachment_service.pb.h"

namespace msitd::ask {

class Connection;

// Writes `bytes`, at most kAttachmentBytesMax, as the attachment described by
// `open`, whose size is set. `written` receives the result. The data is
// verified by its hash. Deadline and cancellation are those of `context`.
// `on_sent`, which may be null, is called with the number of bytes sent so far.
Outcome WriteAttachmentBytes(Connection& connection,
                             grpc::ClientContext& context,
                             v1::WriteAttachmentRequest::Open open,
                             std::string_view bytes,
                             const std::function<void(int64_t)>& on_sent,
                             v1::Attachment& written);

// Passes the bytes of an attachment to `sink`, like ResumingRead. `size_bytes`
// is set to their number before the first of them. Returns an error after the
// last one if the hash does not match.
Outcome ReadAttachmentBytes(Connection& connection, const std::string& run,
                            const std::string& name, const ByteSink& sink,
                            int64_t& size_bytes, ReadLimit limit = {});

}  // namespace msitd::ask
