// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flag/match_flags.h"

#include <fmt/format.h>

#include <vector>

#include "client/ctl/flag/one_of.h"
#include "client/match/limits.h"
#include "client/match/match.h"
#include "client/text/policy_text.h"
#include "protos/status/status.h"

namespace msitd::ctl {

void AddMatchFlags(CLI::App& verb, MatchFlags& flags) {
  std::vector<std::string> words = {"auto", "none"};
  for (const match::Matcher matcher : match::AllMatchers()) {
    words.emplace_back(match::MatcherName(matcher));
  }
  verb.add_option("--match", flags.matcher,
                  "Who puts the tensors of other tools together: auto, by the "
                  "labels source of both runs; none, by names; or a matcher; "
                  "default auto")
      ->check(OneOf(words))
      ->type_name("NAME");
  verb.add_flag("--compat", flags.is_compat,
                "Put them together as msit does, mistakes included");
  verb.add_option("--level", flags.level,
                  "Which modules torch-atb puts together: layer, module, api "
                  "or all; default all")
      ->check(OneOf({"layer", "module", "api", "all"}))
      ->type_name("LEVEL");
  verb.add_option("--op-mapping-file", flags.op_mapping_file,
                  "An op_mapping_file.json: types that torch-atb puts together "
                  "besides its own")
      ->type_name("FILE");
}

Outcome ToMatchOptions(const MatchFlags& flags, match::MatchOptions& options) {
  options.is_compat = flags.is_compat;
  options.level = flags.level == "layer"    ? match::ModuleLevel::kLayer
                  : flags.level == "module" ? match::ModuleLevel::kModule
                  : flags.level == "api"    ? match::ModuleLevel::kApi
                                            : match::ModuleLevel::kAll;
  if (flags.op_mapping_file.empty()) return {};
  auto text = ReadTextFile(flags.op_mapping_file, match::kOpMappingBytesMax);
  if (!text.ok()) {
    return LocalError(fmt::format("--op-mapping-file: {}: {}",
                                  flags.op_mapping_file,
                                  Message(text.status())));
  }
  options.op_mapping = *std::move(text);
  return {};
}

}  // namespace msitd::ctl
