// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::report {

// The rules by which the msprobe report judges rows. msprobe_rules.yaml
// describes each of them. Relative differences are fractions.
struct MsprobeRules {
  struct Result {
    double jump_input_below = 0;
    double jump_output_above = 0;
    double growth_factor_above = 0;
    double growth_output_above = 0;
    double ratio_input_above = 0;
    double ratio_output_below = 0;
    double cosine_input_above = 0;
    double cosine_fall_above = 0;
    std::vector<std::string> ignored;
    std::vector<std::string> inputs_ignored;
  } result;
  struct Accuracy {
    double cosine_below = 0;
    double cosine_always_below = 0;
    double max_abs_above = 0;
    double max_abs_always_above = 0;
    double statistics_above = 0;
    std::vector<std::string> not_deterministic;
  } accuracy;
};

// Returns the rules in msprobe_rules.yaml. Valid for the lifetime of the
// process.
const MsprobeRules& DefaultMsprobeRules();

// Returns the text of msprobe_rules.yaml.
std::string_view DefaultMsprobeRulesText();

// Parses a file with some of its keys. The other rules are as in `rules`.
//
// Errors: INVALID_ARGUMENT with the line for an unknown key, and for a value
// that is not a finite number or a list of names; those of ReadYaml.
absl::StatusOr<MsprobeRules> ReadMsprobeRules(std::string_view yaml,
                                              MsprobeRules rules);

}  // namespace msitd::report
