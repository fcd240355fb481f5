// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ctl/command_line.h"

namespace msitd::ctl {

// The verbs of the noun `run` that are about attachments.
void AddAttachmentVerbs(CommandLine& line, CLI::App& run);

}  // namespace msitd::ctl
