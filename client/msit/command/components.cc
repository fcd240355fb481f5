// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/components.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace msitd::msit_command {
namespace {

struct Component {
  std::string_view name;
  // This program includes its function.
  bool is_here;
};

// In msit's order.
constexpr std::array<Component, 11> kComponents = {{
    {"llm", true},
    {"surgeon", false},
    {"analyze", false},
    {"convert", false},
    {"profile", false},
    {"tensor-view", true},
    {"benchmark", false},
    {"compare", true},
    {"opcheck", false},
    {"graph", false},
    {"elb", false},
}};

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Warns about components that msit does not have either.
void WarnOfUnknown(const std::vector<std::string>& names, Logger& log) {
  for (const std::string& name : names) {
    const bool is_known =
        name == "all" || std::any_of(kComponents.begin(), kComponents.end(),
                                     [&name](const Component& component) {
                                       return component.name == name;
                                     });
    if (!is_known)
      log.Warning(fmt::format("{}: not a component of msit", name));
  }
}

}  // namespace

void CheckComponents(const std::vector<std::string>& names, Logger& log) {
  for (const Component& component : kComponents) {
    if (!Contains(names, "all") && !Contains(names, component.name)) continue;
    log.Info(fmt::format("msit-{}", component.name));
    log.Info(component.is_here ? "  OK" : "  not install yet.");
  }
  WarnOfUnknown(names, log);
}

void ReportComponents(const std::vector<std::string>& names, Logger& log) {
  for (const Component& component : kComponents) {
    const bool is_named = Contains(names, component.name);
    if (!is_named && !Contains(names, "all")) continue;
    if (component.is_here) {
      log.Info(fmt::format("msit-{}: part of msitd " MSIT_VERSION
                           "; nothing to download",
                           component.name));
    } else if (is_named) {
      log.Warning(fmt::format("msit-{}: not part of msitd " MSIT_VERSION,
                              component.name));
    }
  }
  WarnOfUnknown(names, log);
}

}  // namespace msitd::msit_command
