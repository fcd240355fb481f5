// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msit_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "client/foreign/names/msit_names.h"
#include "client/foreign/trees/dump_processes.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/msit_order.h"
#include "client/foreign/trees/msit_statistics.h"
#include "client/foreign/trees/token_tree.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kAnalysis = "tensor_analyze.csv";

// The tensor that the name of a file specifies.
struct TensorName : names::MsitTensorName {
  // The number of the tensor in statistics.csv.
  std::string last;
};

std::optional<TensorName> ParseTensorName(std::string_view name) {
  if (!name.ends_with(names::kMsitTensorSuffix)) return std::nullopt;
  name.remove_suffix(names::kMsitTensorSuffix.size());
  const auto parsed = names::ParseMsitStem(name);
  if (!parsed.has_value()) return std::nullopt;
  return TensorName{*parsed, names::MsitRowIndex(name)};
}

bool IsTensorName(const std::string& name) {
  return ParseTensorName(name).has_value();
}

// Returns nanoseconds since the epoch; 0 if the time is not known.
int64_t TimeOf(const std::string& path) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) return 0;
  return int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec;
}

class MsitTree final : public TokenTree {
 public:
  MsitTree(const TreeFolder& folder, bool is_in_order)
      : TokenTree(TreeKind::kMsit, folder), is_in_order_(is_in_order) {}

  absl::Status Open();

 private:
  // The folder of a token, or another folder of a process.
  struct TokenFolder {
    std::string path;
    std::string device;
    bool is_beside_tokens = false;
    // The file that contains the order of its modules; empty if there is none.
    std::string order_file = {};
  };

  using Modules = std::vector<MsitModule>;

  size_t ListToken(const TokenPlace& place,
                   const std::vector<size_t>& parts) override;
  bool MakeEntry(size_t item, TreeEntry* entry) override;

  void FindTokens(const DumpProcess& process,
                  std::map<TokenPlace, std::vector<size_t>>& tokens);
  void Attach(const std::string& dump);
  void ListBesideTokens(const TokenFolder& part);
  void ListWeights(const std::string& path);
  Modules FindModules(const TokenFolder& part, const Listing& listing);
  // Orders modules by the ends of their calls. Returns true if this order is
  // known.
  bool OrderModules(const TokenFolder& part, Modules& modules);
  bool KnowsOrder(const TokenFolder& part);
  void ListModules(const TokenFolder& part);
  void ListModule(const std::string& path, const std::string& op);
  void AddRows(const std::string& path, const std::string& op,
               const std::vector<TensorName>& files,
               std::map<std::pair<Io, std::string>, int32_t>& calls);
  absl::StatusOr<std::string> ReadText(const std::string& path, size_t max);

  TreeEntry& Add(const std::string& op, Io io, const std::string& index) {
    TreeEntry& entry = items_.emplace_back();
    entry.key.device = device_;
    entry.key.op = op;
    entry.key.io = io;
    entry.key.index = index;
    return entry;
  }

  const bool is_in_order_;
  std::vector<TokenFolder> parts_;
  // The items of the token that is being read.
  std::vector<TreeEntry> items_;
  std::string device_;
};

absl::Status MsitTree::Open() {
  MSITD_ASSIGN_OR_RETURN(DumpProcesses found,
                         FindProcesses(root(), names::kMsitTensors));
  if (found.processes.empty()) {
    return absl::InvalidArgumentError("there is no folder of a process");
  }
  AddProblems(std::move(found.problems));
  std::map<TokenPlace, std::vector<size_t>> tokens;
  for (const DumpProcess& process : found.processes) {
    FindTokens(process, tokens);
  }
  SetFolders(std::move(tokens));
  set_has_known_order(is_in_order_ ||
                      std::all_of(parts_.begin(), parts_.end(),
                                  [this](const TokenFolder& part) {
                                    return KnowsOrder(part);
                                  }));
  if (found.dump.has_value()) Attach(*found.dump);
  return absl::OkStatus();
}

void MsitTree::FindTokens(const DumpProcess& process,
                          std::map<TokenPlace, std::vector<size_t>>& tokens) {
  const auto add = [&](int64_t token, TokenFolder part) {
    tokens[{process.rank, token}].push_back(parts_.size());
    parts_.push_back(std::move(part));
  };
  if (process.token.has_value()) {
    add(*process.token, {process.path, process.device, false});
    return;
  }
  Listing listing = root().List(process.path);
  const std::string order_folder = JoinPath(process.path, names::kMsitOrder);
  const Listing orders = root().List(order_folder);
  const auto order_of = [&](const std::string& token) {
    const std::string name = token + std::string(names::kMsitOrderSuffix);
    return std::binary_search(orders.files.begin(), orders.files.end(), name)
               ? JoinPath(order_folder, name)
               : std::string();
  };
  // This part precedes the folder of token 0. Its problems are reported when it
  // is listed.
  add(0, {process.path, process.device, true});
  for (const std::string& name : listing.folders) {
    if (const auto token = ParseTokenName(name)) {
      add(*token, {JoinPath(process.path, name), process.device, false,
                   order_of(name)});
    }
  }
}

void MsitTree::Attach(const std::string& dump) {
  Listing listing = root().List(dump);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    const std::string relative = JoinPath(dump, name);
    if (name == kAnalysis) {
      AddAttachment({name, root().PathOf(relative), "text/csv"});
    } else {
      Refuse(relative, "msit writes no such file here");
    }
  }
  for (const std::string& name : listing.folders) {
    if (name == names::kMsitTensors) continue;
    Refuse(JoinPath(dump, name), "it does not belong to a torch model");
  }
}

absl::StatusOr<std::string> MsitTree::ReadText(const std::string& path,
                                               size_t max) {
  MSITD_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, max));
  if (!IsValidUtf8(text)) return absl::InvalidArgumentError("it is not UTF-8");
  return text;
}

void MsitTree::ListBesideTokens(const TokenFolder& part) {
  Listing listing = root().List(part.path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    const std::string relative = JoinPath(part.path, name);
    if (name != names::kMsitModelTree) {
      Refuse(relative, "msit writes no such file here");
      continue;
    }
    auto text = ReadText(root().PathOf(relative), kDocumentBytesMax);
    if (!text.ok()) {
      AddProblem(root().PathOf(relative), text.status());
      continue;
    }
    TreeEntry& entry = Add(name, Io::kState, "");
    entry.kind = RecordKind::kDocument;
    entry.text = *std::move(text);
  }
  for (const std::string& name : listing.folders) {
    const std::string relative = JoinPath(part.path, name);
    if (name == names::kMsitWeights) {
      ListWeights(relative);
    } else if (name == names::kMsitOrder) {
      continue;
    } else if (!ParseTokenName(name).has_value()) {
      Refuse(relative, "it is not the folder of a token");
    }
  }
}

void MsitTree::ListWeights(const std::string& path) {
  Listing listing = root().List(path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.folders) {
    Refuse(JoinPath(path, name), "it is not a weight");
  }
  std::sort(listing.files.begin(), listing.files.end(), NaturalLess);
  for (const std::string& name : listing.files) {
    const std::string relative = JoinPath(path, name);
    std::string_view op = name;
    if (op.ends_with(names::kMsitTensorSuffix))
      op.remove_suffix(names::kMsitTensorSuffix.size());
    const size_t dot = op.rfind('.');
    if (op.size() == name.size() || dot == std::string_view::npos) {
      Refuse(relative, "it is not a weight");
      continue;
    }
    Add(std::string(op.substr(0, dot)), Io::kWeight,
        std::string(op.substr(dot + 1)))
        .file = root().PathOf(relative);
  }
}

MsitTree::Modules MsitTree::FindModules(const TokenFolder& part,
                                        const Listing& listing) {
  Modules modules;
  for (const std::string& name : listing.folders) {
    const std::string path = JoinPath(part.path, name);
    int64_t time = 0;
    // A call writes its outputs last.
    for (const std::string& file : root().List(path).files) {
      if (!IsTensorName(file) && file != names::kMsitStatistics) continue;
      time = std::max(time, TimeOf(root().PathOf(JoinPath(path, file))));
    }
    modules.push_back({name, time});
  }
  return modules;
}

bool MsitTree::OrderModules(const TokenFolder& part, Modules& modules) {
  if (!part.order_file.empty()) {
    const auto text =
        ReadText(root().PathOf(part.order_file), kMsitOrderBytesMax);
    if (text.ok()) return OrderByText(*text, modules);
    AddProblem(root().PathOf(part.order_file), text.status());
  }
  return OrderByTime(modules);
}

bool MsitTree::KnowsOrder(const TokenFolder& part) {
  if (part.is_beside_tokens) return true;
  Modules modules = FindModules(part, root().List(part.path));
  return OrderModules(part, modules);
}

void MsitTree::ListModules(const TokenFolder& part) {
  Listing listing = root().List(part.path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.files) {
    Refuse(JoinPath(part.path, name), "it is not in the folder of a module");
  }
  Modules modules = FindModules(part, listing);
  OrderModules(part, modules);
  for (const MsitModule& module : modules) {
    ListModule(JoinPath(part.path, module.name), module.name);
  }
}

void MsitTree::ListModule(const std::string& path, const std::string& op) {
  Listing listing = root().List(path);
  AddProblems(std::move(listing.problems));
  for (const std::string& name : listing.folders) {
    Refuse(JoinPath(path, name), "it is in the folder of a module");
  }
  std::vector<std::pair<TensorName, std::string>> files;
  std::vector<TensorName> names;
  bool has_statistics = false;
  for (const std::string& name : listing.files) {
    const auto tensor = ParseTensorName(name);
    if (tensor.has_value()) {
      files.emplace_back(*tensor, JoinPath(path, name));
      names.push_back(*tensor);
    } else if (name == names::kMsitStatistics) {
      has_statistics = true;
    } else {
      Refuse(JoinPath(path, name), "msit writes no such file here");
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    if (a.first.io != b.first.io) return a.first.io < b.first.io;
    return NaturalLess(a.first.index, b.first.index);
  });
  std::map<std::pair<Io, std::string>, int32_t> calls;
  if (has_statistics) AddRows(path, op, names, calls);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& [name, relative] = files[i];
    // `output.pth` and `output_0.pth` are the same tensor.
    if (i > 0 && files[i - 1].first.io == name.io &&
        files[i - 1].first.index == name.index) {
      Refuse(relative, "another file of the module is this tensor");
      continue;
    }
    TreeEntry& entry = Add(op, name.io, name.index);
    entry.key.call = calls[{name.io, name.last}];
    entry.file = root().PathOf(relative);
  }
}

// Each call appends its rows and overwrites the files of the previous call. The
// last rows with a number therefore belong to its files. Earlier rows belong to
// calls of which nothing else exists.
void MsitTree::AddRows(const std::string& path, const std::string& op,
                       const std::vector<TensorName>& files,
                       std::map<std::pair<Io, std::string>, int32_t>& calls) {
  const std::string file =
      root().PathOf(JoinPath(path, names::kMsitStatistics));
  const auto text = ReadText(file, kMsitStatisticsBytesMax);
  auto table = text.ok() ? ParseMsitStatistics(*text)
                         : absl::StatusOr<MsitStatisticsTable>(text.status());
  if (!table.ok()) {
    AddProblem(file, table.status());
    return;
  }
  for (absl::Status& problem : table->problems) {
    AddProblem(file, std::move(problem));
  }
  std::map<std::pair<Io, std::string>, int64_t> alone;
  for (const MsitStatistics& row : table->rows) ++alone[{row.io, row.index}];
  for (const TensorName& name : files) --alone[{name.io, name.last}];
  for (MsitStatistics& row : table->rows) {
    const std::pair<Io, std::string> key(row.io, row.index);
    if (alone[key]-- <= 0) continue;
    TreeEntry& entry = Add(op, row.io, row.index);
    entry.key.call = calls[key]++;
    entry.kind = RecordKind::kStatistics;
    entry.dtype = row.dtype;
    entry.shape = std::move(row.shape);
    entry.text = std::move(row.text);
  }
}

size_t MsitTree::ListToken(const TokenPlace& /*place*/,
                           const std::vector<size_t>& parts) {
  items_.clear();
  for (const size_t number : parts) {
    const TokenFolder& part = parts_[number];
    device_ = part.device;
    if (part.is_beside_tokens) {
      ListBesideTokens(part);
    } else {
      ListModules(part);
    }
  }
  return items_.size();
}

bool MsitTree::MakeEntry(size_t item, TreeEntry* entry) {
  *entry = std::move(items_[item]);
  return true;
}

}  // namespace

bool LooksLikeMsit(const TreeSample& sample) {
  return std::any_of(
      sample.folders.begin(), sample.folders.end(),
      [&sample](const SampledFolder& folder) {
        const std::vector<std::string> names =
            NamesOf(sample.above, folder.path);
        const bool is_module =
            !names.empty() && names.back().starts_with("root");
        const auto has = [](const std::vector<std::string>& all,
                            std::string_view name) {
          return std::find(all.begin(), all.end(), name) != all.end();
        };
        return has(folder.files, names::kMsitModelTree) ||
               has(folder.folders, names::kMsitTensors) ||
               (is_module && std::any_of(folder.files.begin(),
                                         folder.files.end(), IsTensorName));
      });
}

OpenedTree OpenMsitTree(const TreeFolder& folder, const TreeOptions& options) {
  auto tree = std::make_unique<MsitTree>(folder, options.is_in_order);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

}  // namespace msitd::trees
