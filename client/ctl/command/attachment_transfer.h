// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "client/ctl/invocation.h"
#include "client/query/byte_sink.h"
#include "client/query/outcome.h"
#include "msitd/v1/attachment_service.pb.h"

namespace msitd::ctl {

// Writes `bytes`, kAttachmentBytesMax at most, as the attachment that `open`
// says, whose size is filled in; `written` is what it became. What has arrived
// is checked by its hash.
Outcome WriteAttachment(Invocation& invocation,
                        v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written);

// The same as a call with `context`, whose deadline and cancellation are the
// caller's, and without progress.
Outcome WriteAttachment(Invocation& invocation, grpc::ClientContext& context,
                        v1::WriteAttachmentRequest::Open open,
                        std::string_view bytes, v1::Attachment& written);

// Gives the bytes of an attachment to `sink`, as ResumingRead does;
// `size_bytes` is how many there are, before the first of them. Fails behind
// the last one if they do not have the hash that they should have.
Outcome ReadAttachmentBytes(Invocation& invocation, const std::string& run,
                            const std::string& name, const ByteSink& sink,
                            int64_t& size_bytes);

// Writes the bytes of an attachment to a file; "-" is stdout. A stream that
// breaks with UNAVAILABLE is taken up where it broke, of the same bytes. The
// file is there once it has all of them and they have the hash that they should
// have.
Outcome ReadAttachment(Invocation& invocation, const std::string& run,
                       const std::string& name, const std::string& out);

}  // namespace msitd::ctl
