// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "client/msit/command/components.h"
#include "client/msit/command/verbs.h"

namespace msitd::msit_command {

void AddComponentVerbs(VerbTable& table) {
  struct Options {
    std::vector<std::string> components;
    std::string folder;
  };
  const auto options = std::make_shared<Options>();
  using Report = void (*)(const std::vector<std::string>&, Logger&);
  const auto add = [&](const std::string& name, const std::string& summary,
                       Report report) {
    CLI::App& verb = table.AddVerb(table.root(), name, summary, kCommonLogger,
                                   [options, report](Logger& log) {
                                     report(options->components, log);
                                     return absl::OkStatus();
                                   });
    verb.add_option("components", options->components,
                    "all, llm, compare, tensor-view and the like")
        ->required();
    return &verb;
  };
  const std::string links = "Ignored, because nothing is downloaded";
  for (const std::string name : {"install", "build-extra"}) {
    CLI::App* verb = add(name, "List what is installed, without downloads",
                         &ReportComponents);
    table.AddFlag(*verb, "--find-links", "-f", links, options->folder)
        .required(false);
  }
  add("check", "List what is installed", &CheckComponents);
  CLI::App* download =
      add("download", "List what is installed, without downloads",
          &ReportComponents);
  table.AddFlag(*download, "--dest", "-d", links, options->folder);
}

}  // namespace msitd::msit_command
