// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/attachment_service.pb.h"

namespace msitd::msitctl {

// Calls WriteAttachmentBytes with the user's timeout, and shows progress on
// stderr.
ask::Outcome WriteAttachment(Invocation& invocation,
                             v1::WriteAttachmentRequest::Open open,
                             std::string_view bytes, v1::Attachment& written);

// Writes the bytes of an attachment to a file; "-" is stdout. A stream that
// fails with UNAVAILABLE is resumed with the same bytes. The file is created
// once it has all bytes and their hash is correct.
ask::Outcome ReadAttachment(Invocation& invocation, const std::string& run,
                            const std::string& name, const std::string& out);

}  // namespace msitd::msitctl
