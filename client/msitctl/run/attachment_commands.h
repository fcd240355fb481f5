// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds the verbs for attachments to the noun `run`.
void AddAttachmentVerbs(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
