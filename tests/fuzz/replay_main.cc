// SPDX-License-Identifier: Apache-2.0
// Runs a target without libFuzzer. It runs the seeds and mutations of them,
// which are the same on each call, or the named files if there are any. With
// --write, it writes the seeds.
//
// usage: X_replay [--mutations N] [--write DIR] [FILE...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {
namespace {

constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 0x7f,
                                 0xff,
                                 0xfff,
                                 0x1000,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 uint64_t{1} << 40,
                                 uint64_t{1} << 62,
                                 uint64_t{1} << 63,
                                 ~uint64_t{0}};
constexpr int kEditsMax = 4;

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string Next() {
    std::string bytes = seeds_[Below(seeds_.size())];
    for (uint64_t i = 0; i <= Below(kEditsMax); ++i) Edit(bytes);
    return bytes;
  }

 private:
  uint64_t Below(uint64_t end) { return end == 0 ? 0 : random_() % end; }

  void Edit(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = Below(bytes.size());
    switch (Below(6)) {
      case 0:
        bytes[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(Below(256));
        break;
      case 2: {
        const uint64_t number = kNumbers[Below(std::size(kNumbers))];
        const size_t begin = at / 4 * 4;
        const size_t size = std::min(
            {size_t{1} << Below(4), sizeof(number), bytes.size() - begin});
        bytes.replace(begin, size, BytesOf(number).substr(0, size));
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, bytes.substr(Below(bytes.size()), Below(64)));
        break;
      default: {
        const std::string& other = seeds_[Below(seeds_.size())];
        bytes.replace(at, std::string::npos,
                      other.substr(std::min(at, other.size())));
      }
    }
  }

  const std::vector<std::string> seeds_;
  std::mt19937_64 random_{20261121};
};

void Run(const std::string& bytes) {
  // Makes a copy of exactly this size, so that sanitizers detect a read beyond
  // its end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

bool WriteSeeds(const std::string& directory) {
  int number = 0;
  for (const std::string& seed : Seeds()) {
    std::ofstream file(directory + "/seed-" + std::to_string(number++),
                       std::ios::binary);
    if (!file.write(seed.data(), static_cast<std::streamsize>(seed.size()))) {
      std::fprintf(stderr, "cannot write to %s\n", directory.c_str());
      return false;
    }
  }
  return true;
}

bool RunFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  Run({std::istreambuf_iterator<char>(file), {}});
  return true;
}

int Main(const std::vector<std::string>& arguments) {
  uint64_t mutations = 0;
  bool has_files = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size();
    if (arguments[i] == "--write" && has_value) {
      return WriteSeeds(arguments[i + 1]) ? 0 : 1;
    }
    if (arguments[i] == "--mutations" && has_value) {
      mutations = std::strtoull(arguments[++i].c_str(), nullptr, 10);
    } else {
      has_files = true;
      if (!RunFile(arguments[i])) return 1;
    }
  }
  if (has_files) return 0;
  const std::vector<std::string> seeds = Seeds();
  for (const std::string& seed : seeds) Run(seed);
  Run("");
  Mutator mutator(seeds);
  for (uint64_t i = 0; i < mutations; ++i) Run(mutator.Next());
  std::printf("%zu seeds, %llu mutations\n", seeds.size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}

}  // namespace
}  // namespace msitd::fuzz

int main(int argc, char** argv) {
  return msitd::fuzz::Main({argv + 1, argv + argc});
}
