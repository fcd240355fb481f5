// SPDX-License-Identifier: Apache-2.0
#include "client/msit/components.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace msitd::msit {
namespace {

constexpr std::array<std::string_view, 2> kComponents = {"llm", "tensor-view"};

}  // namespace

void ReportComponents(const std::vector<std::string>& names, Logger& log) {
  const bool wants_all =
      std::find(names.begin(), names.end(), "all") != names.end();
  for (const std::string_view name : kComponents) {
    if (wants_all ||
        std::find(names.begin(), names.end(), name) != names.end()) {
      log.Info(fmt::format(
          "{}: OK, part of msitd " MSIT_VERSION "; nothing to fetch", name));
    }
  }
  for (const std::string& name : names) {
    if (name != "all" && std::find(kComponents.begin(), kComponents.end(),
                                   name) == kComponents.end()) {
      log.Warning(fmt::format("{}: not part of msitd " MSIT_VERSION, name));
    }
  }
}

}  // namespace msitd::msit
