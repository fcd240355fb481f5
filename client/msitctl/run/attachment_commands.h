// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// The verbs of the noun `run` that are about attachments.
void AddAttachmentVerbs(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
