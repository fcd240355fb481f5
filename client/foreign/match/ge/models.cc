// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "protos/status/status.h"

namespace msitd::match {
namespace {

constexpr std::string_view kGraphFile = "dynamo_original_graph_";
constexpr std::string_view kGraphDirectory = "graph_";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Parses the digits at the beginning of `text`; nothing if there are none, or
// too many.
std::optional<uint64_t> LeadingNumber(std::string_view text) {
  uint64_t out = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop == text.data()) return std::nullopt;
  return out;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit) &&
         LeadingNumber(text).has_value();
}

// The model at the beginning of the name of an op.
struct ModelName {
  uint64_t number = 0;
  std::string_view text;  // Including the slash after it.
  std::optional<uint64_t> graph;
};

// `<name>/<number>/` or `graph_<number>/`.
std::optional<ModelName> ModelNameOf(std::string_view op) {
  const size_t first = op.find('/');
  if (first == std::string_view::npos || first == 0) return std::nullopt;
  const size_t second = op.find('/', first + 1);
  if (second != std::string_view::npos) {
    const std::string_view number = op.substr(first + 1, second - first - 1);
    if (IsNumber(number)) {
      return ModelName{*LeadingNumber(number), op.substr(0, second + 1),
                       NumberOfGraph(op.substr(0, first))};
    }
  }
  const auto graph = NumberOfGraph(op.substr(0, first));
  if (!graph.has_value()) return std::nullopt;
  return ModelName{*graph, op.substr(0, first + 1), graph};
}

// The parts of the name of a graph's file.
struct GraphFile {
  // The key by which msit sorts: the first number in the name.
  uint64_t place = 0;
  std::optional<uint64_t> number;
  // Without a number: the text before the rank.
  std::string_view graph;
  uint64_t rank = 0;
  const TextFile* file = nullptr;
};

std::string_view WithoutFolder(std::string_view file) {
  return file.substr(file.rfind('/') + 1);  // npos + 1 is 0.
}

GraphFile GraphFileOf(const TextFile& file) {
  const std::string_view name = WithoutFolder(file.name);
  const auto digit = std::find_if(name.begin(), name.end(), IsDigit);
  GraphFile out;
  out.file = &file;
  out.place = LeadingNumber(name.substr(digit - name.begin())).value_or(0);
  constexpr std::string_view kRank = "_rank_";
  const size_t rank = name.find(kRank);
  out.graph = name.substr(0, rank);
  out.number = NumberOfGraphFile(name);
  if (out.number.has_value()) out.graph = {};
  if (rank != std::string_view::npos) {
    out.rank = LeadingNumber(name.substr(rank + kRank.size())).value_or(0);
  }
  return out;
}

// Texts of several ranks or processes may belong to the same graph.
bool IsOfSameGraph(const GraphFile& a, const GraphFile& b) {
  return a.number == b.number && a.graph == b.graph;
}

}  // namespace

std::optional<uint64_t> NumberOfGraph(std::string_view name) {
  if (!name.starts_with(kGraphDirectory)) return std::nullopt;
  name.remove_prefix(kGraphDirectory.size());
  const std::string_view number = name.substr(0, name.find('_'));
  if (!IsNumber(number)) return std::nullopt;
  return LeadingNumber(number);
}

std::optional<uint64_t> NumberOfGraphFile(std::string_view file) {
  const std::string_view name = WithoutFolder(file);
  if (!name.starts_with(kGraphFile)) return std::nullopt;
  return LeadingNumber(name.substr(kGraphFile.size()));
}

bool IsGraphFile(std::string_view file) {
  const std::string_view name = WithoutFolder(file);
  return name.starts_with(kGraphFile) && name.ends_with(".txt");
}

std::vector<Model> ModelsOf(const RunFacts& run) {
  std::map<std::pair<uint64_t, std::string_view>, Model> models;
  const bool has_models = std::all_of(
      run.ops.begin(), run.ops.end(),
      [](const OpFacts& op) { return ModelNameOf(op.op).has_value(); });
  for (size_t i = 0; i < run.ops.size(); ++i) {
    const std::string_view op = run.ops[i].op;
    const ModelName name =
        has_models ? ModelNameOf(op).value_or(ModelName{}) : ModelName{};
    Model& model = models[{name.number, name.text}];
    model.prefix = name.text;
    model.graph = name.graph;
    model.names.push_back(op.substr(name.text.size()));
    model.by_name.emplace(model.names.back(), i);
  }
  std::vector<Model> out;
  for (auto& [name, model] : models) out.push_back(std::move(model));
  return out;
}

std::vector<GeGraph> GraphsOf(const RunFacts& run, MappingBuilder& builder) {
  std::vector<GraphFile> files;
  for (const TextFile& file : run.files) {
    if (IsGraphFile(file.name)) files.push_back(GraphFileOf(file));
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return std::tie(a.place, a.number, a.graph, a.rank, a.file->name) <
           std::tie(b.place, b.number, b.graph, b.rank, b.file->name);
  });
  std::vector<GeGraph> out;
  for (size_t i = 0; i < files.size(); ++i) {
    GraphText text = ParseGraphText(files[i].file->text);
    if (!text.problem.ok()) {
      builder.Note(fmt::format("{}: {}; the {} ops before it are used",
                               files[i].file->name, Message(text.problem),
                               text.graph.ops.size()));
    }
    if (i == 0 || !IsOfSameGraph(files[i], files[i - 1])) {
      text.graph.number = files[i].number;
      out.push_back(std::move(text.graph));
      continue;
    }
    for (GraphOp& op : text.graph.ops) out.back().Add(std::move(op));
  }
  return out;
}

}  // namespace msitd::match
