// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Attaches a mapping file ("-" is stdin) to `target_run`, under a name that
// contains its hash, and sets it in `mapping`. An existing attachment with the
// same bytes is reused, and `is_new` is false then. The daemon still has to
// validate its contents.
ask::Outcome AttachMapping(Invocation& invocation,
                           const std::string& target_run,
                           const std::string& file,
                           v1::Matching::Mapping& mapping, bool& is_new);

// The same for the lines of a mapping.
ask::Outcome AttachMappingText(Invocation& invocation,
                               const std::string& target_run,
                               const std::string& text,
                               v1::Matching::Mapping& mapping, bool& is_new);

// Detaches the attachment of AttachMapping if its comparison was certainly
// rejected, according to `created`. Adds a message to the error if it cannot be
// detached.
void DetachIfRefused(Invocation& invocation, const std::string& target_run,
                     const v1::Matching::Mapping& mapping,
                     ask::Outcome& created);

}  // namespace msitd::msitctl
