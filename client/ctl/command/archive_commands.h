// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/ctl/command/pages.h"
#include "client/ctl/command_line.h"

namespace msitd::ctl {

// Adds `archive`, `restore` and `archiving`.
void AddArchiveVerbs(CommandLine& line, CLI::App& noun);

// Lists the runs of the archive at `url`.
Outcome ListArchived(Invocation& invocation, const std::string& url,
                     const ListFlags& flags);

}  // namespace msitd::ctl
