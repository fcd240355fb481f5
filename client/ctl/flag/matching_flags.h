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

// A larger file is no mapping.
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

// Returns a matching that the daemon has yet to check.
Outcome ToMatching(const MatchingFlags& flags, v1::Matching& matching);

// Reads ops that belong to each other. JSON is one object, golden names to
// target names; YAML a `GOLDEN: TARGET` a line, either plain or in quotes, with
// comments. INVALID_ARGUMENT for anything else, and for a golden name that is
// there twice.
absl::StatusOr<v1::Matching> ParseMapping(std::string_view text);

// "REGEX=>REPLACEMENT". INVALID_ARGUMENT without the arrow.
absl::StatusOr<v1::Matching::Rewrite> ParseRewrite(std::string_view text);

// "0=4": golden rank, target rank. INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::Matching::RankPair> ParseRankPair(std::string_view text);

}  // namespace msitd::ctl
