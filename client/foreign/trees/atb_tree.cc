// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/atb_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "client/foreign/trees/atb_graphs.h"
#include "client/foreign/trees/dump_processes.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/token_tree.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kContainer = "tensors";
constexpr std::string_view kModels = "model";
constexpr std::string_view kLayers = "layer";
// The conversion of the first input, before the ops of the first graph.
constexpr std::string_view kConversion = "TransdataOperation_0.json";
constexpr std::string_view kBefore = "before";
constexpr std::string_view kAfter = "after";
constexpr std::string_view kSuffix = ".bin";
// Levels from the folder of a token to that of its dump.
constexpr size_t kLevelsAboveMax = 3;

// The tensor that the name of a file specifies.
struct TensorName {
  Io io = Io::kUnspecified;
  std::string index;
};

// Parses `intensor0.bin` and `outtensor1.bin`.
std::optional<TensorName> ParseTensorName(std::string_view name) {
  constexpr std::pair<std::string_view, Io> kNames[] = {
      {"intensor", Io::kInput}, {"outtensor", Io::kOutput}};
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  for (const auto& [prefix, io] : kNames) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view number = name.substr(prefix.size());
    if (IsDigits(number)) return TensorName{io, std::string(number)};
  }
  return std::nullopt;
}

bool IsTensorName(const std::string& name) {
  return ParseTensorName(name).has_value();
}

bool IsJson(std::string_view name) { return name.ends_with(".json"); }

// Orders `2_Linear` before `10_Linear`.
bool OpLess(const std::string& a, const std::string& b) {
  const auto number = [](std::string_view name) {
    return ParseNumber(name.substr(0, name.find('_'))).value_or(INT64_MAX);
  };
  return std::pair(number(a), std::string_view(a)) <
         std::pair(number(b), std::string_view(b));
}

class AtbTree final : public TokenTree {
 public:
  explicit AtbTree(const TreeFolder& folder)
      : TokenTree(TreeKind::kAtb, folder) {}

  absl::Status Open();

 private:
  // The folder of a token.
  struct TokenFolder {
    std::string path;
    std::string device;
    // The prefix of its ops.
    std::string prefix;
    // Set if two tokens share the folder: determines to which token an op
    // belongs.
    const AtbGraphs* graphs = nullptr;
    bool is_decode = false;

    bool Has(const std::string& op) const {
      if (graphs == nullptr) return true;
      return is_decode ? graphs->IsOfDecode(op) : graphs->IsOfPrefill(op);
    }
  };

  size_t ListToken(const TokenPlace& place,
                   const std::vector<size_t>& parts) override;
  bool MakeEntry(size_t item, TreeEntry* entry) override;

  void FindTokens(const DumpProcess& process,
                  std::map<TokenPlace, std::vector<size_t>>& tokens);
  void AddExecution(const DumpProcess& process, int64_t number,
                    const std::string& path,
                    std::map<TokenPlace, std::vector<size_t>>& tokens);
  void AttachAbove();
  void Attach(const TreeFolder& folder, const std::string& dump);
  void AttachProcess(const TreeFolder& folder, const std::string& path,
                     const std::string& kind, const std::string& process,
                     std::map<std::string, std::string>& texts);
  void RefuseIn(const TreeFolder& folder, const std::string& relative,
                std::string_view why);
  void TakeGraph(const std::string& kind, const std::string& process,
                 const std::string& name, const std::string& file,
                 const std::string& text);
  const AtbGraphs* GraphsOf(const DumpProcess& process) const;
  void ListParts(const TokenFolder& part);
  void ListOp(const TokenFolder& part, const std::string& path,
              const std::string& op, int depth);
  void ListTensors(const TokenFolder& part, const std::string& path,
                   const std::vector<std::string>& files, const std::string& op,
                   const std::set<std::string>& twice);

  // True if a folder inside a dump was opened. Other contents of the dump are
  // ignored.
  bool is_inside_ = false;
  // Keyed by the number of the process.
  std::map<int64_t, AtbGraphs> graphs_;
  std::vector<TokenFolder> parts_;
  // The items of the token that is being read.
  std::vector<TreeEntry> items_;
};

absl::Status AtbTree::Open() {
  MSITD_ASSIGN_OR_RETURN(DumpProcesses found,
                         FindProcesses(root(), kContainer));
  AddProblems(std::move(found.problems));
  if (found.dump.has_value()) {
    Attach(root(), *found.dump);
  } else {
    AttachAbove();
  }
  if (found.processes.empty() && attachments().empty()) {
    return absl::InvalidArgumentError("there is no folder of a process");
  }
  std::map<TokenPlace, std::vector<size_t>> tokens;
  for (const DumpProcess& process : found.processes) {
    FindTokens(process, tokens);
  }
  SetFolders(std::move(tokens));
  return absl::OkStatus();
}

// Topologies are above the folder of a process, which may be the folder that
// was opened.
void AtbTree::AttachAbove() {
  is_inside_ = true;
  std::vector<std::string> names = root().above();
  for (size_t i = 0; i <= kLevelsAboveMax && !names.empty(); ++i) {
    if (IsMsitDump(names.back())) {
      std::string path;
      for (const std::string& name : names) path += "/" + name;
      const auto dump = TreeFolder::Open(path);
      if (dump.ok()) Attach(*dump, "");
      return;
    }
    names.pop_back();
  }
}

// Attaches the files of `dump` that are not tensors to the run.
void AtbTree::Attach(const TreeFolder& folder, const std::string& dump) {
  Listing listing = folder.List(dump);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    RefuseIn(folder, JoinPath(dump, name),
             "the acceleration library writes no such file here");
  }
  for (const std::string& kind : listing.folders) {
    if (kind == kContainer) continue;
    const std::string path = JoinPath(dump, kind);
    Listing processes = folder.List(path);
    AddProblems(std::move(processes.problems));
    for (const std::string& name : processes.files) {
      RefuseIn(folder, JoinPath(path, name),
               "it is not in the folder of a process");
    }
    std::map<std::string, std::string> texts;
    for (const std::string& process : processes.folders) {
      AttachProcess(folder, JoinPath(path, process), kind, process, texts);
    }
  }
}

void AtbTree::RefuseIn(const TreeFolder& folder, const std::string& relative,
                       std::string_view why) {
  if (is_inside_) return;
  AddProblem(
      folder.PathOf(relative),
      MakeStatus(absl::StatusCode::kInvalidArgument, "not a dump: {}", why));
}

// Processes write the same topologies. One copy is attached as `model/<name>`,
// and others only if they differ.
void AtbTree::AttachProcess(const TreeFolder& folder, const std::string& path,
                            const std::string& kind, const std::string& process,
                            std::map<std::string, std::string>& texts) {
  Listing listing = folder.List(path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    const std::string file = folder.PathOf(JoinPath(path, name));
    const auto text = ReadSmallFile(file, kTopologyBytesMax);
    if (!text.ok()) {
      AddProblem(file, text.status());
      continue;
    }
    TakeGraph(kind, process, name, file, *text);
    const auto [known, is_new] = texts.try_emplace(name, *text);
    if (!is_new && known->second == *text) continue;
    const std::string attached =
        is_new ? JoinPath(kind, name) : JoinPath(JoinPath(kind, process), name);
    AddAttachment(
        {attached, file, IsJson(name) ? "application/json" : "text/csv"});
  }
  for (const std::string& name : listing.folders) {
    RefuseIn(folder, JoinPath(path, name), "it is in a folder of topologies");
  }
}

void AtbTree::TakeGraph(const std::string& kind, const std::string& process,
                        const std::string& name, const std::string& file,
                        const std::string& text) {
  const auto number = ParseNumber(process);
  if (!number.has_value()) return;
  if (kind == kModels && IsJson(name)) {
    absl::Status taken = graphs_[*number].Add(name, text);
    if (!taken.ok()) AddProblem(file, std::move(taken));
  }
  if (kind == kLayers && name == kConversion) graphs_[*number].ShiftByOne();
}

// Returns the graphs of another process if it has none, because processes run
// the same graphs.
const AtbGraphs* AtbTree::GraphsOf(const DumpProcess& process) const {
  auto found = graphs_.find(process.process);
  if (found == graphs_.end()) found = graphs_.begin();
  return found == graphs_.end() ? nullptr : &found->second;
}

void AtbTree::FindTokens(const DumpProcess& process,
                         std::map<TokenPlace, std::vector<size_t>>& tokens) {
  if (process.token.has_value()) {
    AddExecution(process, *process.token, process.path, tokens);
    return;
  }
  Listing listing = root().List(process.path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    Refuse(JoinPath(process.path, name), "it is not in the folder of a token");
  }
  for (const std::string& name : listing.folders) {
    const std::string path = JoinPath(process.path, name);
    if (const auto number = ParseTokenName(name)) {
      AddExecution(process, *number, path, tokens);
    } else {
      Refuse(path, "it is not the folder of a token");
    }
  }
}

void AtbTree::AddExecution(const DumpProcess& process, int64_t number,
                           const std::string& path,
                           std::map<TokenPlace, std::vector<size_t>>& tokens) {
  const AtbGraphs* const graphs = GraphsOf(process);
  const bool has_several = graphs != nullptr && graphs->count() > 1;
  const std::vector<int64_t> made = TokensOfExecution(number, has_several);
  const bool is_warm_up = has_several && number == 0;
  for (const int64_t token : made) {
    tokens[{process.rank, token}].push_back(parts_.size());
    parts_.push_back({path, process.device,
                      is_warm_up ? std::string(kAtbWarmUp) : "",
                      made.size() > 1 ? graphs : nullptr,
                      /*is_decode=*/token != made.front()});
  }
}

size_t AtbTree::ListToken(const TokenPlace& /*place*/,
                          const std::vector<size_t>& parts) {
  items_.clear();
  for (const size_t number : parts) ListParts(parts_[number]);
  return items_.size();
}

void AtbTree::ListParts(const TokenFolder& part) {
  Listing listing = root().List(part.path);
  // Reported once for a folder that two tokens share.
  if (!part.is_decode) {
    AddProblems(std::move(listing.problems));
    for (const std::string& name : listing.files) {
      Refuse(JoinPath(part.path, name), "it is not in the folder of an op");
    }
  }
  std::sort(listing.folders.begin(), listing.folders.end(), OpLess);
  for (const std::string& name : listing.folders) {
    if (!part.Has(name)) continue;
    ListOp(part, JoinPath(part.path, name), JoinPath(part.prefix, name), 0);
  }
}

// Lists inputs of an op before the ops in it, and its outputs after them.
void AtbTree::ListOp(const TokenFolder& part, const std::string& path,
                     const std::string& op, int depth) {
  Listing listing = root().List(path);
  AddProblems(std::move(listing.problems));
  Listing before;
  Listing after;
  std::vector<std::string> ops;
  for (std::string& name : listing.folders) {
    if (name == kBefore || name == kAfter) {
      Listing& times = name == kBefore ? before : after;
      times = root().List(JoinPath(path, name));
      AddProblems(std::move(times.problems));
      for (const std::string& inside : times.folders) {
        Refuse(JoinPath(JoinPath(path, name), inside), "it is not a tensor");
      }
    } else {
      ops.push_back(std::move(name));
    }
  }
  const std::set<std::string> twice(after.files.begin(), after.files.end());
  ListTensors(part, JoinPath(path, kBefore), before.files, op, twice);
  std::sort(ops.begin(), ops.end(), OpLess);
  for (const std::string& name : ops) {
    const std::string inside = JoinPath(path, name);
    if (depth == kDepthMax) {
      AddProblem(root().PathOf(inside),
                 MakeStatus(absl::StatusCode::kResourceExhausted,
                            "more than {} ops are nested", kDepthMax));
      continue;
    }
    ListOp(part, inside, JoinPath(op, name), depth + 1);
  }
  ListTensors(part, JoinPath(path, kAfter), after.files, op, {});
  // Older probes write no folder for the time.
  ListTensors(part, path, listing.files, op, {});
}

void AtbTree::ListTensors(const TokenFolder& part, const std::string& path,
                          const std::vector<std::string>& files,
                          const std::string& op,
                          const std::set<std::string>& twice) {
  std::vector<std::string> sorted = files;
  std::sort(sorted.begin(), sorted.end(),
            [](const std::string& a, const std::string& b) {
              const auto order = [](const std::string& name) {
                const auto tensor = ParseTensorName(name);
                const TensorName known = tensor.value_or(TensorName());
                return std::tuple(known.io, known.index.size(), known.index,
                                  name);
              };
              return order(a) < order(b);
            });
  for (const std::string& name : sorted) {
    const std::string relative = JoinPath(path, name);
    const auto tensor = ParseTensorName(name);
    if (!tensor.has_value()) {
      Refuse(relative, "the acceleration library writes no such file here");
      continue;
    }
    TreeEntry& entry = items_.emplace_back();
    entry.key.device = part.device;
    entry.key.op = op;
    entry.key.io = tensor->io;
    entry.key.index = tensor->index;
    if (twice.contains(name)) entry.key.index += ".before";
    entry.file = root().PathOf(relative);
  }
}

bool AtbTree::MakeEntry(size_t item, TreeEntry* entry) {
  *entry = std::move(items_[item]);
  return true;
}

}  // namespace

bool LooksLikeAtb(const TreeSample& sample) {
  return std::any_of(
      sample.folders.begin(), sample.folders.end(),
      [&sample](const SampledFolder& folder) {
        const std::vector<std::string> names =
            NamesOf(sample.above, folder.path);
        const size_t count = names.size();
        const bool is_model = count > 2 && names[count - 2] == kModels &&
                              IsMsitDump(names[count - 3]) &&
                              IsDigits(names[count - 1]);
        return std::any_of(folder.files.begin(), folder.files.end(),
                           IsTensorName) ||
               (is_model &&
                std::any_of(folder.files.begin(), folder.files.end(), IsJson));
      });
}

OpenedTree OpenAtbTree(const TreeFolder& folder,
                       const TreeOptions& /*options*/) {
  auto tree = std::make_unique<AtbTree>(folder);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

}  // namespace msitd::trees
