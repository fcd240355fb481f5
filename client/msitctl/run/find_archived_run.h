// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/flag/archived_run.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Sets `out` to the interpretation of `text` that names a run of an archive.
// Queries the daemon, because run names may contain slashes. Without an answer
// within two seconds, or if no interpretation names a run, the first one is
// used, so that the next call reports the error.
//
// Errors: a usage error for text that is not an archived run.
ask::Outcome FindArchivedRun(Invocation& invocation, const std::string& text,
                             ArchivedRunName& out);

}  // namespace msitd::msitctl
