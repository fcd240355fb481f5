// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/level_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/match/torch/module_pairs.h"
#include "client/foreign/match/torch/module_tree.h"
#include "client/foreign/trees/atb_graphs.h"
#include "client/foreign/trees/dump_processes.h"
#include "client/foreign/trees/json/numbers.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/digits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using match::ModuleLevel;

// The number of digits to which a number is padded to be sorted as text.
constexpr int kOrderDigits = 10;

// Returns the numbers of the entries in a folder whose names are those of
// tokens.
std::set<int64_t> NumbersIn(const std::string& folder) {
  std::set<int64_t> out;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end; at.increment(error)) {
    const auto number = trees::ParseTokenName(at->path().filename().string());
    std::error_code ignored;
    if (number.has_value() && at->is_directory(ignored)) out.insert(*number);
  }
  return out;
}

// Returns 1 for the layout `concat(1)`; nothing for another layout.
std::optional<size_t> DimOfPieces(std::string_view layout) {
  constexpr std::string_view kJoined = "concat(";
  if (!layout.starts_with(kJoined) || !layout.ends_with(')')) {
    return std::nullopt;
  }
  layout.remove_prefix(kJoined.size());
  layout.remove_suffix(1);
  const auto number = trees::ParseNumber(layout);
  if (!number.has_value()) return std::nullopt;
  return static_cast<size_t>(*number);
}

}  // namespace

std::string NaturalKey(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && IsDigits(text.substr(end, 1))) ++end;
    if (end == 0) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    out += fmt::format("{:0>{}}", text.substr(0, end), kOrderDigits);
    text.remove_prefix(end);
  }
  return out;
}

ModuleTypes::ModuleTypes(const DumpSide& side, bool is_compat) {
  if (side.kind != trees::TreeKind::kMsit) return;
  const auto tree = match::ParseModelTree(
      fmt::format("{}/{}", side.process, kModelTree), ModelTreeText(side));
  status_ = tree.status();
  if (!tree.ok()) return;
  for (size_t i = 0; i < tree->size(); ++i) {
    types_[(*tree)[i].op] = (*tree)[i].type;
    places_.emplace((*tree)[i].op, i);
  }
  std::vector<size_t> layers = tree->Layers();
  if (layers.empty() && !is_compat) layers = tree->FewLayers();
  for (const size_t layer : layers) {
    layers_.emplace((*tree)[layer].op, layers_.size());
  }
  for (const size_t module : match::ModulesOfLayers(*tree, layers)) {
    modules_.emplace((*tree)[module].op, modules_.size());
  }
}

std::string ModuleTypes::TypeOf(const std::string& op) const {
  const auto found = types_.find(op);
  if (found != types_.end()) return found->second;
  // `3_Prefill_layer/1_Attention` of the library.
  const size_t slash = op.rfind('/');
  const std::string last =
      slash == std::string::npos ? op : op.substr(slash + 1);
  const size_t digits = last.find_first_not_of("0123456789");
  const bool is_numbered =
      digits != 0 && digits != std::string::npos && last[digits] == '_';
  return is_numbered ? last.substr(digits + 1) : "";
}

const ModuleTypes::Places& ModuleTypes::PlacesOf(ModuleLevel level) const {
  return level == ModuleLevel::kLayer    ? layers_
         : level == ModuleLevel::kModule ? modules_
                                         : places_;
}

bool ModuleTypes::IsOf(const std::string& op, ModuleLevel level) const {
  return level == ModuleLevel::kApi || PlacesOf(level).contains(op);
}

std::string ModuleTypes::OrderOf(const std::string& op,
                                 ModuleLevel level) const {
  const Places& of_level = PlacesOf(level);
  const auto own = of_level.find(op);
  const bool is_of_level = level != ModuleLevel::kApi && own != of_level.end();
  auto found = is_of_level ? own : places_.find(op);
  for (std::string_view above = op; !is_of_level && found == places_.end();) {
    const size_t dot = above.rfind('.');
    if (dot == std::string_view::npos) break;
    above = above.substr(0, dot);
    found = places_.find(above);
  }
  const bool is_known = is_of_level || found != places_.end();
  return fmt::format("{}{:0{}} {}", is_of_level ? 0 : 1,
                     is_known ? found->second : places_.size(), kOrderDigits,
                     NaturalKey(op));
}

std::string ModelTreeText(const DumpSide& side) {
  if (side.kind != trees::TreeKind::kMsit) return "";
  const auto file =
      formats::FileSource::Open(fmt::format("{}/{}", side.process, kModelTree));
  if (!file.ok()) return "";
  return (*file)->ReadText(0, (*file)->size()).value_or("");
}

// A folder of the library is an execution, which may contain two tokens.
void LevelSide::FindTokens() {
  std::set<int64_t> numbers;
  if (about.token.has_value()) {
    numbers.insert(*about.token);
  } else {
    for (const std::string& card : about.cards) {
      numbers.merge(NumbersIn(card));
    }
  }
  const bool is_atb = about.kind == trees::TreeKind::kAtb;
  const bool has_several = is_atb && about.graph_count > 1;
  for (const int64_t number : numbers) {
    if (has_several && number == 0) {
      has_warm_up = true;
      if (!about.token.has_value()) continue;
    }
    for (const int64_t token : trees::TokensOfExecution(number, has_several)) {
      tokens.insert(token);
    }
  }
}

absl::Status LevelSide::Open(Logger& log) {
  trees::TreeOptions options;
  options.kind = about.kind;
  MSITD_ASSIGN_OR_RETURN(tree, trees::OpenTree(about.folder, options));
  batch.emplace(*tree);
  if (!types.status().ok()) {
    log.Warning(
        fmt::format("{}; its modules have no types, so they have the levels of "
                    "the other side, or level api",
                    Message(types.status())));
  }
  FindTokens();
  if (about.kind == trees::TreeKind::kAtb) {
    std::vector<std::string> folders = about.cards;
    for (std::string& folder : folders) {
      if (about.token.has_value()) folder += fmt::format("/{}", *about.token);
    }
    batch->KeepFolders(folders);
  }
  if (about.cards.size() > 1) {
    batch->TellRanksApart();
    log.Info(fmt::format("{} and the other cards, {} in total, are assembled",
                         about.process, about.cards.size()));
  }
  return absl::OkStatus();
}

FileIndex::File LevelSide::FileOf(TensorKey& key, int32_t rank) const {
  const auto at = static_cast<size_t>(rank);
  if (at < about.cards.size()) {
    const std::filesystem::path card(about.cards[at]);
    const auto name = trees::ParseProcessName(card.filename().string());
    key.rank = rank;
    if (name.has_value()) key.device = name->device;
  }
  return batch->files().Find(key);
}

TensorPlace LevelSide::PlaceOf(const v1::ComparedTensor& tensor) const {
  auto key = ParseTensorName(tensor.name());
  if (!key.has_value()) return {};
  TensorPlace out;
  const int32_t first = key->rank;
  const auto& ranks = tensor.ranks();
  const auto dim = DimOfPieces(tensor.layout());
  if (dim.has_value()) {
    out.dim = *dim;
    for (const int32_t rank : ranks) out.pieces.push_back(FileOf(*key, rank));
  }
  const bool has_own =
      std::find(ranks.begin(), ranks.end(), about.card) != ranks.end();
  out.file = FileOf(*key, has_own ? about.card : first);
  out.key = *std::move(key);
  return out;
}

void LevelSide::Keep(const std::set<int64_t>& kept, bool has_warm_ups) {
  tree->KeepTokens(kept);
  if (has_warm_up && about.token.has_value() && !has_warm_ups) {
    batch->NameWarmUp(BatchTree::WarmUp::kAsToken);
  } else if (!has_warm_ups) {
    batch->NameWarmUp(BatchTree::WarmUp::kLeave);
  }
}

}  // namespace msitd::msit_command
