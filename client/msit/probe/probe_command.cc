// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/probe_command.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "client/msit/probe/probe_verbs.h"

namespace msitd::msit_command {
namespace {

// Removes the framework that early releases require before the verb, as in
// `-f pytorch compare`.
std::vector<std::string> WithoutFramework(std::vector<std::string> words) {
  if (words.size() >= 2 && (words[0] == "-f" || words[0] == "--framework")) {
    words.erase(words.begin(), words.begin() + 2);
  }
  return words;
}

}  // namespace

bool IsMsprobe(const char* program) {
  const std::string_view path = program == nullptr ? "" : program;
  return path.substr(path.rfind('/') + 1) == "msprobe";
}

int RunMsprobe(int argc, char** argv) {
  VerbTable table(
      {.name = "msprobe",
       .description =
           "The command msprobe of the MindStudio tools, as provided "
           "by msitd. For the\ndifferences, see docs/msprobe.md.",
       .log_style = LogStyle::kMsprobe,
       .log_file = stdout});
  AddProbeCompare(table);
  AddProbePrograms(table);
  AddGraphVisualize(table);
  AddRefusedProbeVerbs(table);
  return table.Run(WithoutFramework({argv + 1, argv + argc}));
}

}  // namespace msitd::msit_command
