// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/flag/archived_run.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Sets `out` to the reading of `text` that names a run of an archive. Asks the
// daemon, because run names may have slashes; without an answer within two
// seconds, or if no reading names a run, the first one counts, so that the call
// that follows reports what is wrong.
//
// Errors: a usage error for text that is not an archived run.
ask::Outcome FindArchivedRun(Invocation& invocation, const std::string& text,
                             ArchivedRunName& out);

}  // namespace msitd::msitctl
