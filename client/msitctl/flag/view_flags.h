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

// The flags that specify what tensors are seen as.
struct ViewFlags {
  std::vector<std::string> golden;
  std::vector<std::string> target;
};

void AddViewFlags(CLI::App& verb, ViewFlags& flags);

// Adds the views to `matching`. The daemon still has to validate them.
ask::Outcome AddViews(const ViewFlags& flags, v1::Matching& matching);

// Parses PATTERN[@IO[/INDEX]]=VIEW[ as OP], such as
// "*.qkv@output/0=split(-1,32:8:8,0) as *.q". The text is split at its last
// `=`. The daemon parses VIEW. Returns INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::View> ParseViewRule(std::string_view text);

}  // namespace msitd::msitctl
