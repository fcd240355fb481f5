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

// Writes `bytes`, kAttachmentBytesMax at most, as the attachment that `open`
// says, whose size is filled in; `written` is what it became. What has arrived
// is checked by its hash. Deadline and cancellation are those of `context`.
// `on_sent`, which may be null, gets the bytes sent so far.
Outcome WriteAttachmentBytes(Connection& connection,
                             grpc::ClientContext& context,
                             v1::WriteAttachmentRequest::Open open,
                             std::string_view bytes,
                             const std::function<void(int64_t)>& on_sent,
                             v1::Attachment& written);

// Gives the bytes of an attachment to `sink`, as ResumingRead does;
// `size_bytes` is how many there are, before the first of them. Fails behind
// the last one if they do not have the hash that they should have.
Outcome ReadAttachmentBytes(Connection& connection, const std::string& run,
                            const std::string& name, const ByteSink& sink,
                            int64_t& size_bytes);

}  // namespace msitd::ask
