// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/command_line.h"

#include <string_view>

#include "client/msit/command/verb_table.h"
#include "client/msit/command/verbs.h"

namespace msitd::msit_command {

bool IsMsit(const char* program) {
  const std::string_view path = program == nullptr ? "" : program;
  return path.substr(path.rfind('/') + 1) == "msit";
}

int Run(int argc, char** argv) {
  VerbTable table({.name = "msit",
                   .description =
                       "The command msit of the MindStudio inference tools, as "
                       "provided by\n"
                       "msitd. For the differences, see docs/msit.md."});
  AddLlmVerbs(table);
  AddDebugVerbs(table);
  AddViewVerb(table);
  AddComponentVerbs(table);
  return table.Run({argv + 1, argv + argc});
}

}  // namespace msitd::msit_command
