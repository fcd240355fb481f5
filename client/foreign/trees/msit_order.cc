// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msit_order.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>

#include "client/foreign/names/call_order.h"
#include "client/foreign/trees/json/numbers.h"
#include "protos/base/digits.h"

namespace msitd::trees {
namespace {

// A random order passes all checks with at most this probability.
constexpr double kAccidentMax = 0.02;

bool NameEndsBefore(const MsitModule& a, const MsitModule& b) {
  return names::EndsBefore(a.name, b.name);
}

bool EndsEarlier(const MsitModule& a, const MsitModule& b) {
  return a.time != b.time ? a.time < b.time : NameEndsBefore(a, b);
}

std::string_view ParentOf(std::string_view name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

bool Contains(std::string_view whole, std::string_view part) {
  return part.size() > whole.size() && part.starts_with(whole) &&
         part[whole.size()] == '.';
}

// Returns the component of `name` that contains the byte at `at`.
std::string_view ComponentAt(std::string_view name, size_t at) {
  const size_t dot = at == 0 ? std::string_view::npos : name.rfind('.', at - 1);
  const size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
  return name.substr(begin,
                     std::min(name.find('.', begin), name.size()) - begin);
}

// Returns true if one name is a part of the other, or if the first component in
// which they differ is a number, such as `h.1.fc` and `h.2.fc`. The names then
// determine which module was executed first.
bool AreOrderedByName(std::string_view a, std::string_view b) {
  if (Contains(a, b) || Contains(b, a)) return true;
  const auto at = static_cast<size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  return IsDigits(ComponentAt(a, at)) && IsDigits(ComponentAt(b, at));
}

// Returns true if no neighbors have the same time without an order by name.
bool HasNoTies(const std::vector<MsitModule>& modules) {
  return std::adjacent_find(modules.begin(), modules.end(),
                            [](const MsitModule& a, const MsitModule& b) {
                              return a.time == b.time &&
                                     !AreOrderedByName(a.name, b.name);
                            }) == modules.end();
}

// The parts of a module that have ended, keyed by the module.
struct EndedParts {
  size_t count = 0;
  int64_t last_time = 0;
};
using PartsByName = std::unordered_map<std::string_view, EndedParts>;

PartsByName FindParts(const std::vector<MsitModule>& modules) {
  PartsByName parts;
  for (const MsitModule& module : modules) {
    std::string_view name = module.name;
    for (std::string_view parent = ParentOf(name); parent.size() < name.size();
         name = parent, parent = ParentOf(name)) {
      EndedParts& of = parts[parent];
      ++of.count;
      of.last_time = std::max(of.last_time, module.time);
    }
  }
  return parts;
}

// Divides `accident` by the number of orders in which the parts of each module
// may end, only one of which has the module last. Returns false if a part ended
// after its module.
bool CheckContainers(const std::vector<MsitModule>& modules,
                     const PartsByName& parts, double& accident) {
  for (const MsitModule& module : modules) {
    const auto found = parts.find(module.name);
    if (found == parts.end()) continue;
    if (found->second.last_time > module.time) return false;
    // If all have the same time, this proves nothing.
    if (found->second.last_time == module.time) continue;
    accident /= static_cast<double>(found->second.count + 1);
  }
  return true;
}

// The same for numbered parts, such as `h.0` and `h.1`, which end in the order
// of their numbers.
bool CheckNumbers(const std::vector<MsitModule>& modules, double& accident) {
  std::map<std::string_view, std::map<int64_t, int64_t>> times_by_parent;
  for (const MsitModule& module : modules) {
    std::string_view name = module.name;
    for (std::string_view parent = ParentOf(name); parent.size() < name.size();
         name = parent, parent = ParentOf(name)) {
      const auto number = ParseNumber(name.substr(parent.size() + 1));
      if (!number.has_value()) continue;
      int64_t& last = times_by_parent[parent][*number];
      last = std::max(last, module.time);
    }
  }
  for (const auto& [parent, times] : times_by_parent) {
    int64_t last = times.begin()->second;
    double distinct_count = 1;
    for (const auto& [number, time] : times) {
      if (time < last) return false;
      if (time > last) accident /= ++distinct_count;
      last = time;
    }
  }
  return true;
}

// Returns true for the order in which tools copy a folder that was unpacked in
// the order of names. This order also has a module after its parts.
bool IsBackwards(const std::vector<MsitModule>& modules) {
  return std::is_sorted(
      modules.begin(), modules.end(),
      [](const MsitModule& a, const MsitModule& b) { return a.name > b.name; });
}

// Returns the probability that meaningless times pass all checks; 1 if they
// fail.
double AccidentOf(const std::vector<MsitModule>& modules) {
  double accident = 1;
  const bool fits = CheckContainers(modules, FindParts(modules), accident) &&
                    CheckNumbers(modules, accident) && !IsBackwards(modules);
  return fits ? accident : 1;
}

// Returns true if each module is a part of the next one.
bool IsChain(const std::vector<MsitModule>& modules) {
  return std::adjacent_find(modules.begin(), modules.end(),
                            [](const MsitModule& a, const MsitModule& b) {
                              return !Contains(b.name, a.name);
                            }) == modules.end();
}

}  // namespace

bool OrderByText(std::string_view text, std::vector<MsitModule>& modules) {
  std::unordered_map<std::string_view, size_t> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace(text.substr(0, end), lines.size());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto line_of = [&lines](const MsitModule& module) {
    const auto found = lines.find(module.name);
    return found == lines.end() ? lines.size() : found->second;
  };
  std::sort(modules.begin(), modules.end(),
            [&](const MsitModule& a, const MsitModule& b) {
              const size_t line_a = line_of(a);
              const size_t line_b = line_of(b);
              return line_a != line_b ? line_a < line_b : NameEndsBefore(a, b);
            });
  return modules.empty() || line_of(modules.back()) < lines.size();
}

bool OrderByTime(std::vector<MsitModule>& modules) {
  std::sort(modules.begin(), modules.end(), NameEndsBefore);
  if (IsChain(modules)) return true;
  std::vector<MsitModule> by_time = modules;
  std::sort(by_time.begin(), by_time.end(), EndsEarlier);
  const double accident = AccidentOf(by_time);
  if (accident >= 1) return false;
  // Times that fit may be correct even if this is not proven.
  modules = std::move(by_time);
  return accident <= kAccidentMax && HasNoTies(modules);
}

}  // namespace msitd::trees
