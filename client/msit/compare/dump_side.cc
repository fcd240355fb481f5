// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/dump_side.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "client/foreign/trees/atb_graphs.h"
#include "client/foreign/trees/dump_processes.h"
#include "client/foreign/trees/tree_folder.h"

namespace msitd::msit_command {
namespace {

namespace fs = std::filesystem;

// The number of folders from that of the dump on that a path may have.
constexpr int kDumpPathMax = 4;
// The number of levels above a path that are searched for the tree of its
// model.
constexpr int kTreeLevels = 3;

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Returns the names of the folders in a folder, in order.
std::set<std::string> FoldersIn(const fs::path& folder) {
  std::set<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (IsFolder(at->path())) out.insert(at->path().filename().string());
  }
  return out;
}

std::string PidOf(const std::string& process) {
  return process.substr(process.rfind('_') + 1);  // npos + 1 is 0.
}

// Returns the process that the path names, or the first one.
std::optional<std::string> ProcessOf(const fs::path& dump,
                                     const std::vector<std::string>& behind) {
  const std::set<std::string> names = FoldersIn(dump / "tensors");
  if (names.empty()) return std::nullopt;
  if (behind.size() < 2) return *names.begin();
  if (behind[0] == "tensors" && names.contains(behind[1])) return behind[1];
  const auto found = std::find_if(
      names.begin(), names.end(),
      [&behind](const auto& name) { return PidOf(name) == PidOf(behind[1]); });
  if (found == names.end()) return std::nullopt;
  return *found;
}

// Counts the graphs of the process, or of another process that ran the same
// ones.
size_t CountGraphs(const fs::path& models, const std::string& pid) {
  const std::set<std::string> processes = FoldersIn(models);
  if (processes.empty()) return 0;
  const auto folder = trees::TreeFolder::Open(
      models / (processes.contains(pid) ? pid : *processes.begin()));
  if (!folder.ok()) return 0;
  trees::AtbGraphs graphs;
  // The reader of the tree reports errors in a file.
  for (const std::string& name : folder->List("").files) {
    if (!name.ends_with(".json")) continue;
    auto text =
        trees::ReadSmallFile(folder->PathOf(name), trees::kTopologyBytesMax);
    if (text.ok()) (void)graphs.Add(name, *std::move(text));
  }
  return graphs.count();
}

// Sets the cards of a side whose process is known.
void FindCards(DumpSide& side) {
  const fs::path process(side.process);
  using Card = std::pair<trees::ProcessName, std::string>;
  std::vector<Card> found;
  for (const std::string& name : FoldersIn(process.parent_path())) {
    const auto parsed = trees::ParseProcessName(name);
    if (parsed.has_value()) found.emplace_back(*parsed, name);
  }
  std::sort(found.begin(), found.end(), [](const Card& a, const Card& b) {
    return trees::RanksBefore(a.first, b.first);
  });
  for (const auto& [parsed, name] : found) {
    if (name == process.filename()) {
      side.card = static_cast<int32_t>(side.cards.size());
    }
    side.cards.push_back((process.parent_path() / name).string());
  }
  // A folder with a different name is a process by itself.
  if (!trees::ParseProcessName(process.filename().string()).has_value()) {
    side.cards = {side.process};
    side.card = 0;
  }
}

std::optional<DumpSide> FindAtbSide(const fs::path& path) {
  fs::path dump = path;
  std::vector<std::string> behind;
  while (!trees::IsMsitDump(dump.filename().string())) {
    if (static_cast<int>(behind.size()) + 1 >= kDumpPathMax) {
      return std::nullopt;
    }
    behind.insert(behind.begin(), dump.filename().string());
    dump = dump.parent_path();
  }
  if (FoldersIn(dump / "model").empty()) return std::nullopt;
  const auto process = ProcessOf(dump, behind);
  if (!process.has_value()) return std::nullopt;
  DumpSide side;
  side.kind = trees::TreeKind::kAtb;
  side.folder = dump.string();
  side.process = (dump / "tensors" / *process).string();
  side.graph_count = CountGraphs(dump / "model", PidOf(*process));
  if (behind.size() > 2) side.token = trees::ParseTokenName(behind[2]);
  FindCards(side);
  return side;
}

std::optional<DumpSide> FindTorchSide(const fs::path& path) {
  fs::path process = path;
  std::string below;
  for (int i = 0; i < kTreeLevels; ++i) {
    std::error_code error;
    if (fs::is_regular_file(process / kModelTree, error)) {
      DumpSide side;
      side.folder = process.string();
      side.process = side.folder;
      if (i > 0) side.token = trees::ParseTokenName(below);
      FindCards(side);
      if (side.cards.size() > 1) side.folder = process.parent_path().string();
      return side;
    }
    below = process.filename().string();
    process = process.parent_path();
  }
  return std::nullopt;
}

}  // namespace

std::optional<DumpSide> FindDumpSide(const std::string& path) {
  if (!IsFolder(path)) return std::nullopt;
  const auto atb = FindAtbSide(path);
  return atb.has_value() ? atb : FindTorchSide(path);
}

}  // namespace msitd::msit_command
