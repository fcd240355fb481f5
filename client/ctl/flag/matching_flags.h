// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/flag/layout_flags.h"
#include "client/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// Largest mapping file.
inline constexpr size_t kMappingBytesMax = size_t{16} << 20;

// Which tensors belong to each other, as the command line says it.
struct MatchingFlags {
  std::vector<std::string> rewrites;
  std::string map_file;
  bool ignore_case = false;
  bool fuzzy = false;
  bool ignore_placements = false;
  int64_t token_offset = 0;
  std::vector<std::string> rank_map;
  LayoutFlags layouts;
};

void AddMatchingFlags(CLI::App& verb, MatchingFlags& flags);

// Fills in `matching`. The daemon still has to check it.
Outcome ToMatching(const MatchingFlags& flags, v1::Matching& matching);

// Parses pairs of ops that belong to each other. JSON is one object from golden
// names to target names. YAML has one `GOLDEN: TARGET` on each line, plain or
// in quotes, and comments. INVALID_ARGUMENT for anything else, and if a golden
// name occurs twice.
absl::StatusOr<v1::Matching> ParseMapping(std::string_view text);

// Parses "REGEX=>REPLACEMENT". INVALID_ARGUMENT without the arrow.
absl::StatusOr<v1::Matching::Rewrite> ParseRewrite(std::string_view text);

// Parses "0=4": golden rank, target rank. INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::Matching::RankPair> ParseRankPair(std::string_view text);

}  // namespace msitd::ctl
