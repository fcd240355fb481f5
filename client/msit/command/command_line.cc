// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/command_line.h"

#include <sys/stat.h>

#include <string_view>

#include "client/msit/command/verb_table.h"
#include "client/msit/command/verbs.h"

namespace msitd::msit_command {
namespace {

// Files are accessible only to their owner and its group.
constexpr mode_t kUmask = 027;

}  // namespace

bool IsMsit(const char* program) {
  const std::string_view path = program == nullptr ? "" : program;
  return path.substr(path.rfind('/') + 1) == "msit";
}

int Run(int argc, char** argv) {
  umask(kUmask);
  VerbTable table;
  AddLlmVerbs(table);
  AddDebugVerbs(table);
  AddViewVerb(table);
  AddComponentVerbs(table);
  return table.Run({argv + 1, argv + argc});
}

}  // namespace msitd::msit_command
