// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/msprobe/msprobe_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "client/foreign/match/json_text.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/names/msprobe_names.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::vector<std::string>;

// Its children are numbered separately in every stage of a pipeline.
constexpr std::string_view kNumberedType = "ParallelTransformer";
constexpr std::string_view kNumberedChild = "layers";

std::string Joined(const Path& path, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += '.';
    out += path[i];
  }
  return out;
}

Path Split(std::string_view text) {
  Path out;
  while (!text.empty()) {
    const size_t dot = std::min(text.find('.'), text.size());
    out.emplace_back(text.substr(0, dot));
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return out;
}

bool IsModule(std::string_view op) {
  return op.starts_with("Module.") || op.starts_with("Cell.");
}

// In `Cell.net.fc.Dense`, `net.fc` is the path and `Dense` the class.
struct ModuleName {
  Path path;
  std::string type;
};

ModuleName ParseModule(std::string_view op) {
  ModuleName out;
  out.path = Split(op);
  out.path.erase(out.path.begin());
  if (!out.path.empty()) {
    out.type = std::move(out.path.back());
    out.path.pop_back();
  }
  return out;
}

std::optional<MsprobePass> PassOf(Io io) {
  switch (io) {
    case Io::kInput:
    case Io::kOutput:
    case Io::kWeight:
      return MsprobePass::kForward;
    case Io::kGradInput:
    case Io::kGradOutput:
      return MsprobePass::kBackward;
    case Io::kGradWeight:
      return MsprobePass::kGradients;
    default:
      return std::nullopt;
  }
}

std::string EntryName(const std::string& op, int32_t call, Io io) {
  const auto name = names::MsprobeNameOf({op, call, io, "0"});
  return name.has_value() ? name->entry : "";
}

std::string PathOfParent(const std::string& parent) {
  const auto key =
      names::KeyOfMsprobe({parent, names::MsprobePart::kOutput, "0"});
  if (!key.has_value() || !IsModule(key->op)) return parent;
  const Path path = ParseModule(key->op).path;
  return Joined(path, path.size());
}

std::string TextOf(const TextFile& file) {
  return fmt::format("rank {}, token {}", file.rank, file.token);
}

// The parents of entries, and their positions among all entries. A mapping has
// neither rank nor token, so those of all ranks and tokens must agree.
class Construct {
 public:
  struct Entry {
    std::string parent;
    size_t number = 0;
    const TextFile* file = nullptr;  // The first file that has it.
  };

  static absl::StatusOr<Construct> Read(const RunFacts& run) {
    Construct out;
    for (const TextFile& file : run.files) {
      if (file.name != kMsprobeConstructFile) continue;
      MSITD_RETURN_IF_ERROR(CheckJson(file.name, file.text));
      const Json tree = Json::parse(file.text);
      if (!tree.is_object()) {
        return MakeStatus(absl::StatusCode::kInvalidArgument,
                          "{} is not an object", file.name);
      }
      const auto unlike = out.Add(tree, file);
      if (!unlike.has_value()) continue;
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "run {}: {} of {} and of {} have \"{}\" at different "
                        "positions, but a layer mapping applies to all ranks "
                        "and tokens: compare runs that have one of these",
                        run.run, file.name, TextOf(*unlike->file), TextOf(file),
                        unlike->entry);
    }
    return out;
  }

  const Entry* Find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  // The calls at a place, in order.
  using Calls = std::vector<std::string>;

  // An entry that has another place in an earlier file.
  struct Unlike {
    std::string entry;
    const TextFile* file = nullptr;
  };

  // Adds the tree of a file. Returns an entry whose place, or number among the
  // calls there, differs from that in an earlier file; nothing if there is
  // none.
  std::optional<Unlike> Add(const Json& tree, const TextFile& file) {
    std::unordered_map<std::string, std::string> parents;
    for (const auto& [name, value] : tree.items()) {
      // Megatron appends the number of the micro step to the parent.
      const Json& parent =
          value.is_array() && !value.empty() ? value.front() : value;
      parents.emplace(
          name, parent.is_string() ? parent.get<std::string>() : std::string());
    }
    std::unordered_map<std::string, size_t> counts;
    for (const auto& [name, value] : tree.items()) {
      const std::string place = PlaceOf(name, parents);
      Calls& calls = calls_[place];
      const size_t number = counts[place]++;
      if (number < calls.size()) {
        const std::string& known = calls[number];
        if (known != name) return Unlike{name, entries_.at(known).file};
        continue;
      }
      const auto [entry, is_new] = entries_.emplace(
          name, Entry{parents.at(name), entries_.size(), &file});
      if (!is_new) return Unlike{name, entry->second.file};
      calls.push_back(name);
    }
    return std::nullopt;
  }

  // Returns the place of an entry in the form that Model uses, as text.
  static std::string PlaceOf(
      const std::string& name,
      const std::unordered_map<std::string, std::string>& parents) {
    const auto key =
        names::KeyOfMsprobe({name, names::MsprobePart::kOutput, "0"});
    if (!key.has_value()) return name;
    std::string place = std::string(IoName(key->io)) + '\0';
    if (IsModule(key->op)) {
      const Path path = ParseModule(key->op).path;
      return place + Joined(path, path.size());
    }
    auto parent = parents.find(EntryName(key->op, key->call, Io::kOutput));
    if (parent == parents.end()) parent = parents.find(name);
    place += PathOfParent(parent->second);
    return place + '.' + key->op.substr(key->op.rfind('.') + 1);
  }

  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, Calls> calls_;
};

struct Call {
  size_t op = 0;
  int32_t call = 0;
  MsprobePass pass = MsprobePass::kForward;
  size_t place = 0;
  size_t order = 0;
};

// All calls of a run with their places.
class Model {
 public:
  static absl::StatusOr<Model> Read(const RunFacts& run) {
    MSITD_ASSIGN_OR_RETURN(const Construct construct, Construct::Read(run));
    Model out;
    for (size_t op = 0; op < run.ops.size(); ++op) {
      MSITD_RETURN_IF_ERROR(out.AddOp(run.ops[op], op, construct));
    }
    out.NumberLayers();
    return out;
  }

  const std::vector<Call>& calls() const { return calls_; }
  // Returns the path of layers of a call.
  const std::string& PathOf(const Call& call) const {
    return places_[call.place];
  }

  // Returns the class of the module at a path; its last name if there is no
  // module.
  std::string TypeAt(const Path& path, size_t count) const {
    if (count == 0) return std::string(kMsprobeTopLayer);
    const auto found = types_.find(Joined(path, count));
    return found == types_.end() ? path[count - 1] : found->second;
  }

 private:
  absl::Status AddOp(const OpFacts& op, size_t number,
                     const Construct& construct) {
    Io first[3] = {};
    for (const TensorFacts& tensor : op.tensors) {
      const auto pass = PassOf(tensor.io);
      if (pass.has_value()) first[static_cast<int>(*pass)] = tensor.io;
    }
    call_count_ += static_cast<size_t>(op.call_count);
    if (call_count_ > kLayerCallsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "more than {} calls", kLayerCallsMax);
    }
    for (int32_t call = 0; call < op.call_count; ++call) {
      for (int pass = 0; pass < 3; ++pass) {
        if (first[pass] == Io::kUnspecified) continue;
        AddCall(op, number, call, static_cast<MsprobePass>(pass), first[pass],
                construct);
      }
    }
    return absl::OkStatus();
  }

  void AddCall(const OpFacts& op, size_t number, int32_t call, MsprobePass pass,
               Io io, const Construct& construct) {
    Call made{.op = number, .call = call, .pass = pass};
    const auto* entry = construct.Find(EntryName(op.op, call, io));
    made.order =
        entry == nullptr ? std::numeric_limits<size_t>::max() : entry->number;
    if (IsModule(op.op)) {
      const ModuleName name = ParseModule(op.op);
      std::string path = Joined(name.path, name.path.size());
      types_.emplace(path, name.type);
      made.place = PlaceOf(std::move(path));
    } else {
      // The module of a backward call is that of its forward call.
      const auto* forward = construct.Find(EntryName(op.op, call, Io::kOutput));
      if (forward != nullptr) entry = forward;
      std::string path = entry == nullptr ? "" : PathOfParent(entry->parent);
      if (!path.empty()) path += '.';
      made.place = PlaceOf(path + op.op.substr(op.op.rfind('.') + 1));
    }
    calls_.push_back(made);
  }

  size_t PlaceOf(std::string path) {
    const auto [found, is_new] = by_path_.emplace(path, places_.size());
    if (is_new) places_.push_back(std::move(path));
    return found->second;
  }

  // Returns the number of a layer if the path contains one that has to be
  // numbered. `at` receives its position.
  std::optional<uint64_t> LayerNumber(const Path& path, size_t& at) const {
    for (at = 2; at < path.size(); ++at) {
      if (path[at - 1] != kNumberedChild) continue;
      if (TypeAt(path, at - 1) != kNumberedType) continue;
      const auto number = ParseCount(path[at]);
      if (number.has_value()) return number;
    }
    return std::nullopt;
  }

  static std::optional<uint64_t> ParseCount(const std::string& text) {
    constexpr size_t kDigitsMax = 18;
    if (text.size() > kDigitsMax || !IsDigits(text)) return std::nullopt;
    return std::stoull(text);
  }

  void NumberLayers() {
    std::map<std::string, uint64_t> least;
    size_t at = 0;
    for (const std::string& place : places_) {
      const Path path = Split(place);
      const auto number = LayerNumber(path, at);
      if (!number.has_value()) continue;
      const auto [found, is_new] = least.emplace(Joined(path, at), *number);
      if (!is_new) found->second = std::min(found->second, *number);
    }
    std::unordered_map<std::string, std::string> types;
    std::vector<std::string> places = places_;
    for (std::string& place : places) {
      Path path = Split(place);
      const auto number = LayerNumber(path, at);
      const auto type = types_.find(place);
      if (number.has_value()) {
        path[at] = std::to_string(*number - least.at(Joined(path, at)));
        place = Joined(path, path.size());
      }
      if (type != types_.end()) types.emplace(place, type->second);
    }
    places_ = std::move(places);
    types_ = std::move(types);
  }

  std::vector<Call> calls_;
  size_t call_count_ = 0;  // Calls of ops. A call has up to three entries.
  // Each path once, while calls are read.
  std::vector<std::string> places_;
  std::unordered_map<std::string, size_t> by_path_;
  std::unordered_map<std::string, std::string> types_;
};

// The layer mapping by class.
class Rules {
 public:
  explicit Rules(const std::vector<MsprobeMapping::Layers>& layers)
      : layers_(layers), is_used_(layers.size()) {
    for (size_t i = 0; i < layers.size(); ++i) {
      by_type_[layers[i].type].push_back({Split(layers[i].target), i});
    }
  }

  std::string GoldenPath(const Model& model, const Path& path) {
    std::string out;
    for (size_t at = 0; at < path.size();) {
      if (at > 0) out += '.';
      const Rule* const rule = Find(model.TypeAt(path, at), path, at);
      if (rule == nullptr) {
        out += path[at++];
        continue;
      }
      is_used_[rule->number] = true;
      out += layers_[rule->number].golden;
      at += rule->target.size();
    }
    return out;
  }

  std::vector<bool> TakeUsed() { return std::move(is_used_); }

 private:
  struct Rule {
    Path target;
    size_t number = 0;
  };

  const Rule* Find(const std::string& type, const Path& path, size_t at) const {
    const auto found = by_type_.find(type);
    if (found == by_type_.end()) return nullptr;
    for (const Rule& rule : found->second) {
      if (rule.target.size() <= path.size() - at &&
          std::equal(rule.target.begin(), rule.target.end(),
                     path.begin() + static_cast<std::ptrdiff_t>(at))) {
        return &rule;
      }
    }
    return nullptr;
  }

  const std::vector<MsprobeMapping::Layers>& layers_;
  std::unordered_map<std::string, std::vector<Rule>> by_type_;
  std::vector<bool> is_used_;
};

// The calls at each place, in order.
using Places =
    std::map<std::pair<std::string, MsprobePass>, std::vector<const Call*>>;

void Sort(Places& places) {
  for (auto& [place, calls] : places) {
    std::sort(calls.begin(), calls.end(), [](const Call* a, const Call* b) {
      return std::tuple(a->order, a->call, a->op) <
             std::tuple(b->order, b->call, b->op);
    });
  }
}

}  // namespace

absl::StatusOr<LayerPairs> PairLayers(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MsprobeMapping& mapping) {
  MSITD_ASSIGN_OR_RETURN(const Model goldens, Model::Read(golden));
  MSITD_ASSIGN_OR_RETURN(const Model targets, Model::Read(target));
  Places golden_places;
  for (const Call& call : goldens.calls()) {
    golden_places[{goldens.PathOf(call), call.pass}].push_back(&call);
  }
  Rules rules(mapping.layers);
  // Targets are counted by their own places: two layers that map to one golden
  // layer both begin with its first call.
  Places target_places;
  for (const Call& call : targets.calls()) {
    target_places[{targets.PathOf(call), call.pass}].push_back(&call);
  }
  Sort(golden_places);
  Sort(target_places);
  LayerPairs out;
  std::set<const Call*> paired;
  for (const auto& [place, calls] : target_places) {
    const std::string path = rules.GoldenPath(targets, Split(place.first));
    const auto found = golden_places.find({path, place.second});
    if (found == golden_places.end()) continue;
    for (size_t i = 0; i < std::min(calls.size(), found->second.size()); ++i) {
      const Call& other = *found->second[i];
      paired.insert(&other);
      out.pairs.push_back(
          {place.second, other.op, other.call, calls[i]->op, calls[i]->call});
    }
  }
  out.target_left = targets.calls().size() - out.pairs.size();
  out.golden_left = goldens.calls().size() - paired.size();
  out.is_used = rules.TakeUsed();
  return out;
}

}  // namespace msitd::match
