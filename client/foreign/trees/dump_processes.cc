// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/dump_processes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/foreign/trees/json/numbers.h"
#include "protos/base/digits.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }

struct Device {
  std::string name;
  int64_t id = 0;
};

// Parses `npu5`, `cpu` or `5`.
std::optional<Device> ParseDevice(std::string_view text) {
  const auto digits = std::find_if_not(text.begin(), text.end(), IsLetter);
  const auto letters = static_cast<size_t>(digits - text.begin());
  const std::string_view kind = text.substr(0, letters);
  const std::string_view number = text.substr(letters);
  const auto id = ParseNumber(number.empty() ? "0" : number);
  if (!id.has_value() || text.empty()) return std::nullopt;
  Device out{kind.empty() ? "npu" : std::string(kind), *id};
  out.name += ":" + std::to_string(*id);
  if (out.name.size() > kDeviceBytesMax) return std::nullopt;
  return out;
}

struct ProcessFolder {
  ProcessName name;
  std::string path;
  std::optional<int64_t> token;
};

void Refuse(const TreeFolder& folder, const std::string& path, Listing listing,
            std::string_view why, DumpProcesses& out) {
  for (TreeProblem& problem : listing.problems) {
    out.problems.push_back(std::move(problem));
  }
  for (const auto* names : {&listing.folders, &listing.files}) {
    for (const std::string& name : *names) {
      out.problems.push_back({folder.PathOf(JoinPath(path, name)),
                              MakeStatus(absl::StatusCode::kInvalidArgument,
                                         "not a dump: {}", why)});
    }
  }
}

void Number(std::vector<ProcessFolder> found, DumpProcesses& out) {
  std::sort(found.begin(), found.end(),
            [](const ProcessFolder& a, const ProcessFolder& b) {
              return RanksBefore(a.name, b.name);
            });
  int32_t rank = 0;
  for (ProcessFolder& one : found) {
    out.processes.push_back({rank++, one.name.device, one.name.process,
                             std::move(one.path), one.token});
  }
}

// Returns true for the folder of a module of a torch model.
bool IsRootModule(const std::string& name) {
  return name == "root" || name.starts_with("root.");
}

}  // namespace

std::optional<ProcessName> ParseProcessName(std::string_view name) {
  const size_t line = name.find('_');
  if (line == std::string_view::npos) return std::nullopt;
  std::string_view device = name.substr(0, line);
  std::string_view process = name.substr(line + 1);
  if (!IsDigits(process) && IsDigits(device)) std::swap(device, process);
  const auto parsed = ParseDevice(device);
  const auto number = ParseNumber(process);
  if (!parsed.has_value() || !number.has_value()) return std::nullopt;
  return ProcessName{parsed->name, parsed->id, *number};
}

bool RanksBefore(const ProcessName& a, const ProcessName& b) {
  return std::tie(a.device_id, a.process, a.device) <
         std::tie(b.device_id, b.process, b.device);
}

std::optional<int64_t> ParseTokenName(std::string_view name) {
  const auto token = ParseNumber(name);
  const bool is_plain = name.size() == 1 || !name.starts_with('0');
  if (!token.has_value() || !is_plain || *token > kTokenMax) {
    return std::nullopt;
  }
  return token;
}

bool IsMsitDump(std::string_view name) {
  return name.starts_with("msit_dump") || name.starts_with("ait_dump");
}

absl::StatusOr<DumpProcesses> FindProcesses(const TreeFolder& folder,
                                            std::string_view container) {
  DumpProcesses out;
  std::vector<ProcessFolder> found;
  const std::vector<std::string>& above = folder.above();
  const auto name_above = [&above](size_t up) {
    return above.size() < up ? std::string() : above[above.size() - up];
  };
  std::string path;
  Listing listing = folder.List("");
  std::vector<std::string> dumps;
  std::copy_if(listing.folders.begin(), listing.folders.end(),
               std::back_inserter(dumps), IsMsitDump);
  if (dumps.size() > 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "there are {} dumps, such as {} and {}: use one of them",
                      dumps.size(), dumps[0], dumps[1]);
  }
  if (!dumps.empty()) {
    path = dumps[0];
    std::erase(listing.folders, path);
    Refuse(folder, "", std::move(listing), "it is not in the dump", out);
    listing = folder.List(path);
  }
  const auto holds = [&listing](std::string_view name) {
    return std::find(listing.folders.begin(), listing.folders.end(), name) !=
           listing.folders.end();
  };
  if (holds(container) || !dumps.empty() || IsMsitDump(name_above(1))) {
    out.dump = path;
    path = JoinPath(path, container);
    listing = holds(container) ? folder.List(path) : Listing();
  } else if (const auto self = ParseProcessName(name_above(1))) {
    found.push_back({*self, "", std::nullopt});
  } else if (const auto parent = ParseProcessName(name_above(2));
             parent.has_value() && ParseTokenName(name_above(1))) {
    found.push_back({*parent, "", ParseTokenName(name_above(1))});
  } else if (std::any_of(listing.folders.begin(), listing.folders.end(),
                         IsRootModule)) {
    // A single token, without the folder of its process.
    found.push_back(
        {ProcessName(), "", ParseTokenName(name_above(1)).value_or(0)});
  }
  if (found.empty()) {
    std::vector<std::string> others;
    for (std::string& name : listing.folders) {
      if (const auto process = ParseProcessName(name)) {
        found.push_back({*process, JoinPath(path, name), std::nullopt});
      } else {
        others.push_back(std::move(name));
      }
    }
    listing.folders = std::move(others);
    Refuse(folder, path, std::move(listing),
           "it is not the folder of a process", out);
  }
  Number(std::move(found), out);
  return out;
}

}  // namespace msitd::trees
