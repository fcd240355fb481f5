// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// Creates the facts of a run of a model in an engine, in the form in which
// hooks record them.
class ModelFacts {
 public:
  using Shape = std::vector<int64_t>;

  ModelFacts(std::string package, std::string version)
      : package_(std::move(package)), version_(std::move(version)) {}

  ModelFacts& Config(std::string name, int64_t value) {
    config_[std::move(name)] = value;
    return *this;
  }
  // A module. `module_class` with a dot is complete.
  ModelFacts& Module(std::string_view op, std::string_view module_class) {
    std::string all(module_class);
    if (all.find('.') == std::string::npos) all = package_ + ".x." + all;
    modules_.emplace_back(std::string(op), std::move(all));
    return *this;
  }
  ModelFacts& In(std::string_view index, Shape shape) {
    return Add(Io::kInput, index, std::move(shape));
  }
  ModelFacts& Out(std::string_view index, Shape shape) {
    return Add(Io::kOutput, index, std::move(shape));
  }
  ModelFacts& Weight(std::string_view index, Shape shape) {
    parameters_[modules_.back().first][std::string(index)] = shape;
    return Add(Io::kWeight, index, std::move(shape));
  }
  ModelFacts& Add(Io io, std::string_view index, Shape shape) {
    (void)builder_.Add(modules_.back().first, 0, io, index, std::move(shape),
                       4);
    return *this;
  }
  // The tensors of a module that takes and returns one tensor.
  ModelFacts& Call(std::string_view op, std::string_view module_class, Shape in,
                   Shape out) {
    return Module(op, module_class)
        .In("0", std::move(in))
        .Out("0", std::move(out));
  }

  RunFacts Build() {
    RunFacts out;
    out.run = version_;
    out.ops = builder_.Finish();
    out.files.push_back({"module_tree.json", Tree()});
    return out;
  }

 private:
  static std::string Quoted(std::string_view text) {
    return "\"" + std::string(text) + "\"";
  }

  std::string Tree() const {
    std::string out = "{\"version\":1,\"packages\":{" +
                      Quoted(package_.substr(0, package_.find(".models"))) +
                      ":" + Quoted(version_) + "},\"modules\":[";
    std::set<std::string> seen;
    for (const auto& [op, module_class] : modules_) {
      if (!seen.insert(op).second) continue;
      if (out.back() == '}') out += ",";
      out += "{\"op\":" + Quoted(op) + ",\"class\":" + Quoted(module_class) +
             ",\"parameters\":{";
      bool is_first = true;
      const auto found = parameters_.find(op);
      if (found != parameters_.end()) {
        for (const auto& [name, shape] : found->second) {
          if (!is_first) out += ",";
          is_first = false;
          out += Quoted(name) + ":{\"shape\":[";
          for (size_t i = 0; i < shape.size(); ++i) {
            out += (i > 0 ? "," : "") + std::to_string(shape[i]);
          }
          out += "]}";
        }
      }
      out += "},\"config\":{";
      if (op == "root") {
        is_first = true;
        for (const auto& [name, value] : config_) {
          out += (is_first ? "" : ",") + Quoted(name) + ":" +
                 std::to_string(value);
          is_first = false;
        }
      }
      out += "}}";
    }
    return out + "]}";
  }

  const std::string package_;
  const std::string version_;
  std::map<std::string, int64_t> config_;
  std::vector<std::pair<std::string, std::string>> modules_;
  std::map<std::string, std::map<std::string, Shape>> parameters_;
  FactsBuilder builder_;
};

}  // namespace msitd::match
