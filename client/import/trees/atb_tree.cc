// SPDX-License-Identifier: Apache-2.0
#include "client/import/trees/atb_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "client/import/formats/byte_source.h"
#include "client/import/trees/dump_processes.h"
#include "client/import/trees/numbers.h"
#include "client/import/trees/token_tree.h"
#include "client/import/trees/tree_limits.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kContainer = "tensors";
constexpr std::string_view kModels = "model";
constexpr std::string_view kBefore = "before";
constexpr std::string_view kAfter = "after";
constexpr std::string_view kSuffix = ".bin";
// What the ops begin with that ran before the first token.
constexpr std::string_view kWarmUp = "warmup";
constexpr size_t kTopologyBytesMax = size_t{64} << 20;

// The tensor in the name of a file.
struct TensorName {
  Io io = Io::kUnspecified;
  std::string index;
};

// Reads `intensor0.bin` and `outtensor1.bin`.
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

// `2_Linear` before `10_Linear`.
bool OpLess(const std::string& a, const std::string& b) {
  const auto number = [](std::string_view name) {
    return ParseNumber(name.substr(0, name.find('_'))).value_or(INT64_MAX);
  };
  return std::pair(number(a), std::string_view(a)) <
         std::pair(number(b), std::string_view(b));
}

// True for a node of the graph that makes all tokens but the first.
bool IsDecode(std::string_view op) {
  const std::string_view word = "decode";
  return std::search(op.begin(), op.end(), word.begin(), word.end(),
                     [](char a, char b) { return (a | 0x20) == b; }) !=
         op.end();
}

class AtbTree final : public TokenTree {
 public:
  explicit AtbTree(const TreeFolder& folder)
      : TokenTree(TreeKind::kAtb, folder) {}

  absl::Status Open();

 private:
  // A folder of a token.
  struct Part {
    std::string path;
    std::string device;
    // What its ops begin with.
    std::string prefix;
    // Which ops of the folder belong to the token, if two tokens share it.
    std::optional<bool> is_decode;
  };

  size_t ListToken(const TokenPlace& place,
                   const std::vector<size_t>& parts) override;
  bool MakeEntry(size_t item, TreeEntry* entry) override;

  void FindTokens(const DumpProcess& process,
                  std::map<TokenPlace, std::vector<size_t>>& tokens);
  void AddToken(const DumpProcess& process, int64_t number,
                const std::string& path,
                std::map<TokenPlace, std::vector<size_t>>& tokens);
  void Attach(const std::string& dump);
  void AttachFolder(const std::string& dump, const std::string& kind);
  void ListParts(const Part& part);
  void ListOp(const Part& part, const std::string& path, const std::string& op,
              int depth);
  void ListTensors(const Part& part, const std::string& path,
                   const std::vector<std::string>& files, const std::string& op,
                   const std::set<std::string>& twice);

  // A prefill and a decode graph, which is how a warm-up is known.
  bool has_two_graphs_ = false;
  std::vector<Part> parts_;
  // Of the token that is read.
  std::vector<TreeEntry> items_;
};

absl::Status AtbTree::Open() {
  MSITD_ASSIGN_OR_RETURN(DumpProcesses found,
                         FindProcesses(root(), kContainer));
  AddProblems(std::move(found.problems));
  if (found.dump.has_value()) Attach(*found.dump);
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

// Gives the files of `dump` that are no tensors to the run.
void AtbTree::Attach(const std::string& dump) {
  Listing listing = root().List(dump);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    Refuse(JoinPath(dump, name),
           "the acceleration library writes no such "
           "file here");
  }
  for (const std::string& name : listing.folders) {
    if (name != kContainer) AttachFolder(dump, name);
  }
}

// Processes write the same topologies: one of them is attached as
// `model/<name>`, and others only if they differ.
void AtbTree::AttachFolder(const std::string& dump, const std::string& kind) {
  std::map<std::string, std::string> texts;
  const std::string path = JoinPath(dump, kind);
  Listing processes = root().List(path);
  AddProblems(std::move(processes.problems));
  for (const std::string& name : processes.files) {
    Refuse(JoinPath(path, name), "it is in no folder of a process");
  }
  for (const std::string& process : processes.folders) {
    const std::string inside = JoinPath(path, process);
    Listing listing = root().List(inside);
    AddProblems(std::move(listing.problems));
    size_t graphs = 0;
    for (const std::string& name : listing.files) {
      const std::string file = root().PathOf(JoinPath(inside, name));
      const auto source = formats::FileSource::Open(file);
      auto text = !source.ok() ? absl::StatusOr<std::string>(source.status())
                  : (*source)->size() > kTopologyBytesMax
                      ? absl::ResourceExhaustedError("it is too long")
                      : (*source)->ReadText(0, (*source)->size());
      if (!text.ok()) {
        AddProblem(file, text.status());
        continue;
      }
      if (IsJson(name)) ++graphs;
      const auto [known, is_new] = texts.try_emplace(name, *text);
      if (!is_new && known->second == *text) continue;
      const std::string attached =
          is_new ? JoinPath(kind, name)
                 : JoinPath(JoinPath(kind, process), name);
      AddAttachment(
          {attached, file, IsJson(name) ? "application/json" : "text/csv"});
    }
    for (const std::string& name : listing.folders) {
      Refuse(JoinPath(inside, name), "it lies beside topologies");
    }
    if (kind == kModels && graphs > 1) has_two_graphs_ = true;
  }
}

void AtbTree::FindTokens(const DumpProcess& process,
                         std::map<TokenPlace, std::vector<size_t>>& tokens) {
  if (process.token.has_value()) {
    AddToken(process, *process.token, process.path, tokens);
    return;
  }
  Listing listing = root().List(process.path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    Refuse(JoinPath(process.path, name), "it is in no folder of a token");
  }
  for (const std::string& name : listing.folders) {
    const std::string path = JoinPath(process.path, name);
    if (const auto token = ParseTokenName(name)) {
      AddToken(process, *token, path, tokens);
    } else {
      Refuse(path, "it is no folder of a token");
    }
  }
}

void AtbTree::AddToken(const DumpProcess& process, int64_t number,
                       const std::string& path,
                       std::map<TokenPlace, std::vector<size_t>>& tokens) {
  const auto add = [&](int64_t token, std::string prefix,
                       std::optional<bool> is_decode) {
    tokens[{process.rank, token}].push_back(parts_.size());
    parts_.push_back({path, process.device, std::move(prefix), is_decode});
  };
  if (!has_two_graphs_ || number > 1) {
    add(number, "", std::nullopt);
  } else if (number == 0) {
    add(0, std::string(kWarmUp), std::nullopt);
  } else {
    add(0, "", false);
    add(1, "", true);
  }
}

size_t AtbTree::ListToken(const TokenPlace& /*place*/,
                          const std::vector<size_t>& parts) {
  items_.clear();
  for (const size_t number : parts) ListParts(parts_[number]);
  return items_.size();
}

void AtbTree::ListParts(const Part& part) {
  Listing listing = root().List(part.path);
  // Said once of a folder that two tokens share.
  if (!part.is_decode.value_or(false)) {
    AddProblems(std::move(listing.problems));
    for (const std::string& name : listing.files) {
      Refuse(JoinPath(part.path, name), "it is in no folder of an op");
    }
  }
  std::sort(listing.folders.begin(), listing.folders.end(), OpLess);
  for (const std::string& name : listing.folders) {
    if (part.is_decode.value_or(IsDecode(name)) != IsDecode(name)) continue;
    ListOp(part, JoinPath(part.path, name), JoinPath(part.prefix, name), 0);
  }
}

// What an op gets comes before the ops in it, what it gives behind them.
void AtbTree::ListOp(const Part& part, const std::string& path,
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
        Refuse(JoinPath(JoinPath(path, name), inside), "it is no tensor");
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
                            "more than {} ops lie in each other", kDepthMax));
      continue;
    }
    ListOp(part, inside, JoinPath(op, name), depth + 1);
  }
  ListTensors(part, JoinPath(path, kAfter), after.files, op, {});
  // Without the time, older probes.
  ListTensors(part, path, listing.files, op, {});
}

void AtbTree::ListTensors(const Part& part, const std::string& path,
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
