// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/ge_names.h"

#include <utility>
#include <vector>

namespace msitd::match {

NameParts PartsOf(const GeGraph* graph) {
  std::vector<std::string_view> names;
  if (graph != nullptr) {
    for (const GraphOp& op : graph->ops) names.push_back(op.name);
  }
  return NameParts(std::move(names));
}

bool IsConversion(std::string_view op) {
  return op.find("TransData") != std::string_view::npos ||
         op.find("Cast") != std::string_view::npos;
}

}  // namespace msitd::match
