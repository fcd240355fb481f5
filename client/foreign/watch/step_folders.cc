// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/step_folders.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "client/foreign/trees/tree_folder.h"

namespace msitd::watch {
namespace {

constexpr std::string_view kStep = "step";

std::optional<int64_t> ParseStep(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  name.remove_prefix(kStep.size());
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

bool IsRank(std::string_view name) {
  return name.starts_with("rank") || name.starts_with("proc");
}

}  // namespace

std::optional<StepFolder> StepFolderOf(std::string_view path) {
  StepFolder out;
  for (std::string_view rest = path;;) {
    const size_t slash = rest.find('/');
    if (slash == rest.npos) return std::nullopt;
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(slash + 1);
    const size_t end = rest.find('/');
    const auto step = ParseStep(name);
    if (step && end != rest.npos && IsRank(rest.substr(0, end))) {
      out.step = *step;
      out.rank = {out.path, std::string(rest.substr(0, end))};
      out.path = trees::JoinPath(trees::JoinPath(out.path, std::string(name)),
                                 out.rank.second);
      return out;
    }
    out.path = trees::JoinPath(out.path, std::string(name));
  }
}

void StepFolders::Add(std::string_view path) {
  auto folder = StepFolderOf(path);
  if (!folder) return;
  const auto [last, is_first] = last_.try_emplace(folder->rank, folder->step);
  last->second = std::max(last->second, folder->step);
  std::string name = folder->path;
  open_.try_emplace(std::move(name), *std::move(folder));
}

bool StepFolders::IsPast(const StepFolder& folder) const {
  const auto last = last_.find(folder.rank);
  return last != last_.end() && folder.step < last->second;
}

std::vector<std::string> StepFolders::All() const {
  std::vector<std::string> out;
  for (const auto& [path, folder] : open_) out.push_back(path);
  return out;
}

std::vector<std::string> StepFolders::Past() const {
  std::vector<std::string> out;
  for (const auto& [path, folder] : open_) {
    if (IsPast(folder)) out.push_back(path);
  }
  return out;
}

std::set<int64_t> StepFolders::PastSteps() const {
  std::set<int64_t> out;
  std::set<int64_t> others;
  for (const auto& [path, folder] : open_) {
    (IsPast(folder) ? out : others).insert(folder.step);
  }
  for (const int64_t step : others) out.erase(step);
  return out;
}

}  // namespace msitd::watch
