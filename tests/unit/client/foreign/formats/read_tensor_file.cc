// SPDX-License-Identifier: Apache-2.0
// Prints a file of another tool: one line for each tensor, with its bytes in
// hexadecimal.
//
// usage: read_tensor_file FILE [PIECE_BYTES]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

constexpr size_t kPieceBytes = 4096;

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

int Main(const std::string& path, size_t piece_bytes) {
  const auto file = OpenTensorFile(path, {});
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", std::string(file.status().message()).c_str());
    return 1;
  }
  while (const ForeignTensor* tensor = (*file)->Next()) {
    const auto bytes = ReadAll(**file, piece_bytes);
    Print(fmt::format("{}\t{}\t{}\t{}\t{}\t", tensor->name, IoName(tensor->io),
                      tensor->index, DTypeName(tensor->dtype),
                      fmt::join(tensor->shape, ",")));
    if (!bytes.ok()) {
      Print(fmt::format("\t{}\n", std::string(bytes.status().message())));
      continue;
    }
    std::string hex;
    for (const char c : *bytes) {
      hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    Print(hex + "\t\n");
  }
  return 0;
}

}  // namespace
}  // namespace msitd::formats

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  using msitd::formats::kPieceBytes;
  return msitd::formats::Main(
      argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : kPieceBytes);
}
