// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_matching.pb.h"

namespace msitd::msitctl {

// The flags that specify how the shards of ranks form tensors.
struct LayoutFlags {
  std::vector<std::string> golden;
  std::vector<std::string> target;
};

void AddLayoutFlags(CLI::App& verb, LayoutFlags& flags);

// Adds the layouts to `matching`. The daemon still has to validate them.
ask::Outcome AddLayouts(const LayoutFlags& flags, v1::Matching& matching);

// Parses PATTERN[@IO[/INDEX]]=KIND[/GROUP_SIZE][ unless placed], such as
// "*.o_proj@output/0=concat(-1)/2". KIND is concat(DIM[,A:B:...]), zigzag(DIM),
// sum, replicated, pick(RANK) or fit. The text is split at its last `=`. An `@`
// that is not followed by an io is part of the pattern. Returns
// INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::Layout> ParseLayout(std::string_view text);

}  // namespace msitd::msitctl
