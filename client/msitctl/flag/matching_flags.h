// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/query/outcome.h"
#include "client/ask/text/yaml_text.h"
#include "client/msitctl/flag/layout_flags.h"
#include "client/msitctl/flag/view_flags.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// The largest file of paired ops.
inline constexpr size_t kOpMapBytesMax = ask::kYamlBytesMax;

// The flags that specify which tensors are paired.
struct MatchingFlags {
  std::vector<std::string> rewrites;
  std::string op_map_file;
  std::string mapping;  // Attachment, `golden:NAME` or `target:NAME`.
  std::string mapping_file;
  bool pair_others = false;
  bool ignore_case = false;
  bool fuzzy = false;
  std::string by = "token";
  bool ignore_placements = false;
  int64_t token_offset = 0;
  std::vector<std::string> rank_map;
  LayoutFlags layouts;
  ViewFlags views;
};

void AddMatchingFlags(CLI::App& verb, MatchingFlags& flags);

// Fills in `matching`, except for the attachment that is created from
// `mapping_file`. The daemon still has to validate it.
ask::Outcome ToMatching(const MatchingFlags& flags, v1::Matching& matching);

// Parses pairs of ops. JSON is one object from golden names to target names;
// YAML is a map. Returns INVALID_ARGUMENT for anything else, and if a golden
// name occurs twice, and RESOURCE_EXHAUSTED beyond the limits of YAML.
absl::StatusOr<v1::Matching> ParseOpMap(std::string_view text);

// Parses "REGEX=>REPLACEMENT". INVALID_ARGUMENT without the arrow.
absl::StatusOr<v1::Matching::Rewrite> ParseRewrite(std::string_view text);

// Parses "golden:NAME", "target:NAME" or "NAME", which stands for the target
// run. Returns INVALID_ARGUMENT if there is no name.
absl::StatusOr<v1::Matching::Mapping> ParseMappingName(std::string_view text);

// Parses "0=4": golden rank, target rank. INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::Matching::RankPair> ParseRankPair(std::string_view text);

}  // namespace msitd::msitctl
