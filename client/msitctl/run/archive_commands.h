// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/msitctl/command_line.h"
#include "client/msitctl/verb/pages.h"

namespace msitd::msitctl {

// Adds `archive`, `restore` and `archiving`.
void AddArchiveVerbs(CommandLine& line, CLI::App& noun);

// Lists the runs of the archive at `url`.
ask::Outcome ListArchived(Invocation& invocation, const std::string& url,
                          const ListFlags& flags);

}  // namespace msitd::msitctl
