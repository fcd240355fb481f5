// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/golden/chunk/golden_chunks.h"

// Writes the golden chunks to the given folder. Use it only for a new version
// of the format, because the files of a released version never change.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  for (const auto& golden : msitd::chunk::MakeGoldenChunks()) {
    const std::string path = std::string(argv[1]) + "/" + golden.name;
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(golden.bytes.data()),
               static_cast<std::streamsize>(golden.bytes.size()));
    if (!file.good()) {
      std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
      return 1;
    }
    std::printf("%s %zu\n", path.c_str(), golden.bytes.size());
  }
  return 0;
}
