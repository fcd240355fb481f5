// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <string>

#include "client/msit/command/verbs.h"
#include "client/msit/dump/debug_dump.h"

namespace msitd::msit_command {
namespace {

struct ModelFlag {
  const char* long_name;
  const char* short_name;
};

// Flags for models of other frameworks, which have no meaning with --exec.
constexpr std::array<ModelFlag, 13> kOfModels = {{
    {"--model", "-m"},
    {"--weight", "-w"},
    {"--input", "-i"},
    {"--cann-path", "-c"},
    {"--input-shape", "-is"},
    {"--device", "-d"},
    {"--dym-shape-range", "-dr"},
    {"--onnx-fusion-switch", "-ofs"},
    {"--saved_model_signature", ""},
    {"--saved_model_tag_set", ""},
    {"--device-pattern", "-dp"},
    {"--tf-json", ""},
    {"--fusion-switch-file", ""},
}};

struct DebugDumpFlags {
  DebugDumpOptions options;
  std::array<std::string, kOfModels.size()> of_models;
};

}  // namespace

void AddDebugDump(VerbTable& table, CLI::App& debug) {
  const auto flags = std::make_shared<DebugDumpFlags>();
  DebugDumpOptions& options = flags->options;
  CLI::App& verb = table.AddLauncher(
      debug, "dump", "Run a program of MindIE Torch and record its tensors",
      kDebugLogger,
      [flags](Logger& log) { return DumpMindie(flags->options, log); });
  const auto add = [&table, &verb](const std::string& long_name,
                                   const std::string& short_name,
                                   const std::string& what, auto& value) {
    table.AddFlag(verb, long_name, short_name, what, value).required(false);
  };
  add("--exec", "", "The command to run, without quotes", options.command);
  add("--output", "-o", "Folder to write to; default the current one",
      options.output);
  add("--operation-name", "-opname", "Ops, separated by commas; default all",
      options.ops);
  add("--run", "", "Record into this run of a msitd, without files",
      options.run);
  add("--endpoint", "", "Address of that msitd; default MSITD_ENDPOINT",
      options.endpoint);
  verb.add_flag("--no-start", options.no_start,
                "Do not start your own msitd for --run");
  for (size_t i = 0; i < kOfModels.size(); ++i) {
    const ModelFlag& flag = kOfModels[i];
    const std::string name = flag.long_name;
    table
        .AddFlag(verb, name, flag.short_name, "Not used with --exec",
                 flags->of_models[i])
        .required(false)
        ->each([flags, name](const std::string&) {
          flags->options.of_models.push_back(name);
        });
  }
}

}  // namespace msitd::msit_command
