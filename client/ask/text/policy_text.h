// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/capture_service.pb.h"
#include "msitd/v1/comparison_service.pb.h"

// Policies as users write them. The daemon checks the predicates in them.
// Errors are INVALID_ARGUMENT.
namespace msitd::ask {

// Most rules that the daemon takes.
inline constexpr int kPolicyRulesMax = 1024;

// Largest policy file.
inline constexpr size_t kPolicyBytesMax = size_t{16} << 20;

// Parses the name of a preset, such as "torch". The error lists them all.
absl::StatusOr<v1::Policy::Preset> ParsePreset(std::string_view name);

// Returns an enum value as users write it: `TOP_K` is `top-k`.
std::string WordOf(std::string_view enum_value);

// Parses "PATTERN: TOLERANCE", split at the last colon, because names of ops
// may contain colons (`aten::mm`) and tolerances do not. A PATTERN between two
// slashes is a regular expression. A TOLERANCE is `@PRESET`, a predicate, or
// `rtol=NUMBER`, `atol=NUMBER` or both, optionally followed by a predicate.
absl::StatusOr<v1::Policy::Rule> ParseRule(std::string_view text);

// Parses a policy. If the first character that is not blank is `{`, it is the
// proto JSON of msitd.v1.Policy. Otherwise each line is a rule, except empty
// lines and lines that begin with `#`. `lines`, unless null, gets the line
// number of each rule; 0 in JSON.
absl::StatusOr<v1::Policy> ParsePolicy(std::string_view text,
                                       std::vector<int>* lines = nullptr);

// Parses rules of a capture policy: the proto JSON of a list of
// msitd.v1.CaptureRule, or of a whole msitd.v1.CapturePolicy, of which only the
// rules are used. The format is that of `capture get`.
absl::StatusOr<v1::CapturePolicy> ParseCaptureRules(std::string_view text);

// Returns the rules of a policy, one line each, in the syntax of its flags:
// `preset torch`, `rule head*: nl2 <= 1e-9`.
std::vector<std::string> PolicyLines(const v1::Policy& policy);

// Reads a file, or stdin if `path` is "-". An error of the system has the code
// of ErrnoStatus. A file of more than `bytes_max` bytes is INVALID_ARGUMENT.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t bytes_max);

// Reads a file, or stdin if `path` is "-". An error of the system has the code
// of ErrnoStatus. An error of the content is INVALID_ARGUMENT and names the
// line.
absl::StatusOr<v1::Policy> ReadPolicyFile(const std::string& path,
                                          std::vector<int>* lines = nullptr);

}  // namespace msitd::ask
