// SPDX-License-Identifier: Apache-2.0
// Explains cases: reads them from the standard input, and writes a line of JSON
// for each. A case is a line of JSON, followed by the elements of its tensors
// as doubles: {"noise": .., "dtype": "float32", "stale": false, "tensors":
// [{"name": "golden", "shape": [..]}, {"name": "target", ..}, inputs...]}.
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/explain/explain.h"
#include "protos/base/dtype.h"

namespace {

using msitd::compare::explain::Elements;
using msitd::compare::explain::ExaminedOp;

ExaminedOp Read(const nlohmann::json& header) {
  ExaminedOp out;
  out.dtype = msitd::ParseDType(header.at("dtype").get<std::string>())
                  .value_or(msitd::DType::kFloat32);
  out.noise = msitd::compare::explain::NoiseOf(header.at("noise").get<double>(),
                                               out.dtype);
  if (header.at("stale").get<bool>()) out.stale_token = 0;
  for (const auto& tensor : header.at("tensors")) {
    Elements elements;
    elements.shape = tensor.at("shape").get<std::vector<int64_t>>();
    size_t count = 1;
    for (const int64_t size : elements.shape)
      count *= static_cast<size_t>(size);
    elements.values.resize(count);
    std::cin.read(reinterpret_cast<char*>(elements.values.data()),
                  static_cast<std::streamsize>(count * sizeof(double)));
    const auto name = tensor.at("name").get<std::string>();
    if (name == "golden") {
      out.golden = std::move(elements);
    } else if (name == "target") {
      out.target = std::move(elements);
    } else {
      out.inputs.push_back({name, std::move(elements)});
    }
  }
  return out;
}

// Returns the processor time of this thread, which other processes do not
// change.
double ProcessorMs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
}

void Run() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const ExaminedOp op = Read(nlohmann::json::parse(line));
    const double begin = ProcessorMs();
    const auto explanations = msitd::compare::explain::Explain(op);
    nlohmann::json out = {{"ms", ProcessorMs() - begin},
                          {"explanations", nlohmann::json::array()}};
    for (const auto& one : explanations) {
      out["explanations"].push_back({{"kind", static_cast<int>(one.kind)},
                                     {"text", one.text},
                                     {"where", one.where},
                                     {"residual", one.residual},
                                     {"without", one.residual_without}});
    }
    std::cout << out.dump() << std::endl;
  }
}

}  // namespace

int main() {
  try {
    Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "explain_cases: %s\n", error.what());
    return 1;
  }
  return 0;
}
