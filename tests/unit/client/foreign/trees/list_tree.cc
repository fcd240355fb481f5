// SPDX-License-Identifier: Apache-2.0
// Prints a folder of another tool: one line of JSON for each entry, attachment
// and problem.
//
// usage: list_tree PATH [KIND]
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/foreign/trees/tree.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

using Json = nlohmann::ordered_json;

void Print(const Json& line) {
  const auto replace = Json::error_handler_t::replace;
  std::printf("%s\n", line.dump(-1, ' ', false, replace).c_str());
}

void PrintProblems(Tree& tree) {
  for (const TreeProblem& problem : tree.TakeProblems()) {
    Print({{"problem", std::string(Message(problem.reason))},
           {"file", problem.file}});
  }
}

Json Line(const TreeEntry& entry) {
  const TensorKey& key = entry.key;
  Json line = {{"rank", key.rank},
               {"device", key.device},
               {"token", key.token},
               {"op", key.op},
               {"call", key.call}};
  if (key.io != Io::kUnspecified) {
    line["io"] = IoName(key.io);
    line["index"] = key.index;
  }
  if (entry.kind != RecordKind::kTensor) {
    line["kind"] = RecordKindName(entry.kind);
    line["text"] = entry.text;
    line["dtype"] = DTypeName(entry.dtype);
    line["shape"] = entry.shape;
  }
  if (!entry.stack.empty()) line["stack"] = entry.stack;
  if (entry.requires_grad.has_value()) {
    line["requires_grad"] = *entry.requires_grad;
  }
  if (!entry.tensor.empty()) line["tensor"] = entry.tensor;
  line["file"] = entry.file;
  return line;
}

int Main(const std::string& path, const TreeOptions& options) {
  const auto tree = OpenTree(path, options);
  if (!tree.ok()) {
    std::fprintf(stderr, "%s\n", std::string(Message(tree.status())).c_str());
    return 1;
  }
  Print({{"tree", TreeKindName((*tree)->kind())},
         {"ranks", (*tree)->ranks()},
         {"world_size", (*tree)->world_size()}});
  for (const TreeAttachment& attachment : (*tree)->attachments()) {
    Print({{"attachment", attachment.name},
           {"file", attachment.file},
           {"media_type", attachment.media_type}});
  }
  PrintProblems(**tree);
  while (const TreeEntry* entry = (*tree)->Next()) {
    Print(Line(*entry));
    PrintProblems(**tree);
  }
  PrintProblems(**tree);
  return 0;
}

}  // namespace
}  // namespace msitd::trees

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  msitd::trees::TreeOptions options;
  if (argc > 2) options.kind = msitd::trees::ParseTreeKind(argv[2]);
  return msitd::trees::Main(argv[1], options);
}
