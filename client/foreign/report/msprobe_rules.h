// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::report {

// What the msprobe report judges by: msprobe_rules.yaml, which says what each
// is for. Relative differences are fractions.
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
  struct Red {
    double difference_above = 0;
    double ratio_input_above = 0;
    double ratio_output_below = 0;
    double relative_output_above = 0;
  } red;
  struct Yellow {
    double growth_from = 0;
    double ratio_fall_above = 0;
    double cosine_fall_above = 0;
    double relative_output_above = 0;
    double relative_input_below = 0;
  } yellow;
  struct Accuracy {
    double cosine_below = 0;
    double cosine_always_below = 0;
    double max_abs_above = 0;
    double max_abs_always_above = 0;
    double statistics_above = 0;
    std::vector<std::string> not_deterministic;
  } accuracy;
};

// Those of msprobe_rules.yaml. Lives as long as the process.
const MsprobeRules& DefaultMsprobeRules();

// Its text.
std::string_view DefaultMsprobeRulesText();

// Reads a file with some of its keys; the others are as in `rules`.
//
// Errors: INVALID_ARGUMENT with the line for a key that is not known, and for
// what is no finite number or no list of names; those of ReadYaml.
absl::StatusOr<MsprobeRules> ReadMsprobeRules(std::string_view yaml,
                                              MsprobeRules rules);

}  // namespace msitd::report
