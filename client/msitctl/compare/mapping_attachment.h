// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Attaches a mapping file ("-" is stdin) to `target_run`, under a name made of
// its hash, and has `mapping` use it. One that is there with the same bytes is
// used as it is: `is_new` is false then. The daemon still has to check what is
// in it.
ask::Outcome AttachMapping(Invocation& invocation,
                           const std::string& target_run,
                           const std::string& file,
                           v1::Matching::Mapping& mapping, bool& is_new);

// The same for the lines of a mapping.
ask::Outcome AttachMappingText(Invocation& invocation,
                               const std::string& target_run,
                               const std::string& text,
                               v1::Matching::Mapping& mapping, bool& is_new);

// Detaches what AttachMapping has attached if the comparison that it is for was
// refused for certain, as `created` says. Adds to the error if it stays.
void DetachIfRefused(Invocation& invocation, const std::string& target_run,
                     const v1::Matching::Mapping& mapping,
                     ask::Outcome& created);

}  // namespace msitd::msitctl
