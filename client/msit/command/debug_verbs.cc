// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/ask/query/interrupts.h"
#include "client/msit/command/verbs.h"
#include "client/msit/compare/mindie_report.h"

namespace msitd::msit_command {

namespace {

void AddDebugCompare(VerbTable& table, CLI::App& debug) {
  const auto options = std::make_shared<MindieOptions>();
  options->output = "./";
  CLI::App& verb = table.AddVerb(
      debug, "compare",
      "Compare a dump of MindIE Torch with a dump of a torch model",
      kDebugLogger, [options](Logger& log) {
        ask::Interrupts interrupts;
        return CompareMindie(*options, interrupts, log);
      });
  table.AddFlag(verb, "--golden-path", "-gp",
                "Folder of a token that msit dumped", options->golden);
  table.AddFlag(verb, "--my-path", "-mp", "Folder Graph of MindIE's dump",
                options->my);
  table.AddFlag(verb, "--ops-json", "-ops-json",
                "Folder with both mappings of MindIE Torch",
                options->mapping_folder);
  table
      .AddFlag(verb, "--output", "-o", "Folder of the report; default ./",
               options->output)
      .required(false);
  table.AddSwitch(verb, "--compat", "-compat",
                  "Report as the original does: only first outputs",
                  options->is_compat);
}

}  // namespace

void AddDebugVerbs(VerbTable& table) {
  CLI::App& debug = table.AddGroup("debug", "Tools for MindIE Torch");
  AddDebugDump(table, debug);
  AddDebugCompare(table, debug);
}

}  // namespace msitd::msit_command
