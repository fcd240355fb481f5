// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/match_flags.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/ask/text/yaml_text.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/match/match.h"
#include "client/msitctl/flag/one_of.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr char kMsprobe[] = "msprobe";

// A mapping file of msprobe.
struct MappingFile {
  const char* flag;
  std::string MatchFlags::*field;
  absl::Status (*read)(std::string_view, match::MsprobeMapping&);
  const char* help;
};

constexpr MappingFile kMappingFiles[] = {
    {"--data-mapping", &MatchFlags::data_mapping, match::ReadDataMapping,
     "YAML of msprobe's -dm: target leaves to golden leaves"},
    {"--cell-mapping", &MatchFlags::cell_mapping, match::ReadCellMapping,
     "YAML of msprobe's -cm: names of target modules, or parts of them, to "
     "golden ones"},
    {"--api-mapping", &MatchFlags::api_mapping, match::ReadApiMapping,
     "YAML of msprobe's -am: APIs with their arguments"},
    {"--layer-mapping", &MatchFlags::layer_mapping, match::ReadLayerMapping,
     "YAML of msprobe's -lm: layers of a class to golden layers"},
    {"--ignore-table", &MatchFlags::ignore_table, match::ReadIgnoreTable,
     "YAML that replaces the table of receive buffers and scratch memory that "
     "--match msprobe does not compare"}};

ask::Outcome ReadMapping(const MappingFile& file, const std::string& path,
                         match::MsprobeMapping& out) {
  if (path.empty()) return {};
  const auto text = ask::ReadTextFile(path, ask::kYamlBytesMax);
  if (!text.ok()) {
    return ask::LocalError(
        fmt::format("{}: {}: {}", file.flag, path, Message(text.status())));
  }
  const absl::Status status = file.read(*text, out);
  if (status.ok()) return {};
  return ask::UsageError(fmt::format("{}: {}: {}", file.flag, path,
                                     ask::Printable(Message(status))));
}

}  // namespace

void AddMatchFlags(CLI::App& verb, MatchFlags& flags) {
  std::vector<std::string> words = {"auto", "none"};
  for (const match::Matcher matcher : match::AllMatchers()) {
    words.emplace_back(match::MatcherName(matcher));
  }
  verb.add_option(
          "--match", flags.matcher,
          "How to pair tensors recorded by other tools. auto (default): choose "
          "by the label `source` of each run. none: by names and numbers of "
          "calls. Otherwise, the name of a matcher")
      ->check(OneOf(words))
      ->type_name("NAME");
  verb.add_flag("--compat", flags.is_compat,
                "Pair tensors as msit does, including its mistakes");
  verb.add_option("--level", flags.level,
                  "Level of modules that torch-atb pairs: layer, module, api "
                  "or all; default all")
      ->check(OneOf({"layer", "module", "api", "all"}))
      ->type_name("LEVEL");
  verb.add_option(
          "--op-mapping-file", flags.op_mapping_file,
          "An op_mapping_file.json: additional types that torch-atb pairs")
      ->type_name("FILE");
  for (const MappingFile& file : kMappingFiles) {
    verb.add_option(file.flag, flags.*file.field, file.help)->type_name("FILE");
  }
}

ask::Outcome SettleMatcher(MatchFlags& flags) {
  for (const MappingFile& file : kMappingFiles) {
    if ((flags.*file.field).empty()) continue;
    if (flags.matcher == "auto") flags.matcher = kMsprobe;
    if (flags.matcher != kMsprobe) {
      return ask::UsageError(
          fmt::format("{} requires --match {}", file.flag, kMsprobe));
    }
  }
  if (!flags.layer_mapping.empty() &&
      !(flags.cell_mapping.empty() && flags.api_mapping.empty())) {
    return ask::UsageError(
        "--layer-mapping cannot be combined with --cell-mapping or "
        "--api-mapping");
  }
  return {};
}

ask::Outcome ToMatchOptions(const MatchFlags& flags,
                            match::MatchOptions& options) {
  options.is_compat = flags.is_compat;
  options.level = flags.level == "layer"    ? match::ModuleLevel::kLayer
                  : flags.level == "module" ? match::ModuleLevel::kModule
                  : flags.level == "api"    ? match::ModuleLevel::kApi
                                            : match::ModuleLevel::kAll;
  for (const MappingFile& file : kMappingFiles) {
    MSITCTL_RETURN_IF_FAILED(
        ReadMapping(file, flags.*file.field, options.msprobe));
  }
  if (flags.ignore_table.empty()) {
    const absl::Status status =
        match::ReadIgnoreTable(match::DefaultIgnoreTable(), options.msprobe);
    if (!status.ok()) return ask::UsageError(std::string(Message(status)));
  }
  if (flags.op_mapping_file.empty()) return {};
  auto text =
      ask::ReadTextFile(flags.op_mapping_file, match::kOpMappingBytesMax);
  if (!text.ok()) {
    return ask::LocalError(fmt::format("--op-mapping-file: {}: {}",
                                       flags.op_mapping_file,
                                       Message(text.status())));
  }
  options.op_mapping = *std::move(text);
  return {};
}

}  // namespace msitd::msitctl
