// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include "client/ask/query/interrupts.h"
#include "client/msit/command/verbs.h"
#include "client/msit/compare/mindie_report.h"

namespace msitd::msit_command {

namespace {

constexpr char kRunsNoModels[] =
    "msitd does not run models of ONNX, TensorFlow, Caffe or OM: dump both, "
    "import the dumps with msitctl run import, and compare the runs with "
    "msitctl compare run";

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
  // The message must not depend on the flags for MindIE Torch, which such a
  // command line lacks.
  for (const auto& [long_name, short_name] :
       {std::pair("--golden-model", "-gm"), std::pair("--om-model", "-om")}) {
    table
        .AddFlag(verb, long_name, short_name, "Not supported: runs no models",
                 options->model)
        .required(false)
        ->check([](const std::string&) { return std::string(kRunsNoModels); });
  }
}

}  // namespace

void AddDebugVerbs(VerbTable& table) {
  CLI::App& debug = table.AddGroup("debug", "Tools for MindIE Torch");
  AddDebugDump(table, debug);
  AddDebugCompare(table, debug);
}

}  // namespace msitd::msit_command
