// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/comparison_service.pb.h"

// Policies as users write them. Whether a predicate means anything is for the
// daemon to say. Errors are INVALID_ARGUMENT.
namespace msitd::ctl {

// More rules are refused by the daemon.
inline constexpr int kPolicyRulesMax = 1024;

// A larger file is no policy.
inline constexpr size_t kPolicyBytesMax = size_t{16} << 20;

// "torch" and the like. INVALID_ARGUMENT lists them.
absl::StatusOr<v1::Policy::Preset> ParsePreset(std::string_view name);

// Name of a value of an enum as users write it: `TOP_K` is `top-k`.
std::string WordOf(std::string_view enum_value);

// "PATTERN: TOLERANCE", cut at the last colon: names of ops have colons
// (`aten::mm`), tolerances have none. A PATTERN between two slashes is a
// regular expression. A TOLERANCE is `@PRESET`, or `rtol=NUMBER` and
// `atol=NUMBER`, one or both, and a predicate behind them, or only that.
absl::StatusOr<v1::Policy::Rule> ParseRule(std::string_view text);

// Takes the proto JSON of msitd.v1.Policy if the first character that is not
// blank is `{`; else a rule a line, empty lines and lines that begin with `#`
// left out.
// `lines`, if it is not null, gets the line of each rule, 0 for one of JSON.
absl::StatusOr<v1::Policy> ParsePolicy(std::string_view text,
                                       std::vector<int>* lines = nullptr);

// Returns what decides in a policy, a line each, in the words that its flags
// take: `preset torch`, `rule head*: nl2 <= 1e-9`.
std::vector<std::string> PolicyLines(const v1::Policy& policy);

// Reads a file, or stdin if `path` is "-". An error of the system has the code
// of ErrnoStatus; a file of more bytes is INVALID_ARGUMENT.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t bytes_max);

// Reads a file, or stdin if `path` is "-". An error of the system has the code
// of ErrnoStatus, an error of the content is INVALID_ARGUMENT with the line.
absl::StatusOr<v1::Policy> ReadPolicyFile(const std::string& path,
                                          std::vector<int>* lines = nullptr);

}  // namespace msitd::ctl
