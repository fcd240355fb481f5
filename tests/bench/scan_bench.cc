// SPDX-License-Identifier: Apache-2.0

// Scans of a run for one op at each token, by its name and by a pattern that
// matches only this name. The run has 128 tokens with the inputs and outputs of
// 2,048 ops.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "protos/base/check.h"
#include "storage/env/env.h"
#include "storage/store.h"
#include "tests/support/named_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::MakeTensor;
using ::msitd::testing::NamedRuns;
using ::msitd::testing::TempDir;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;

constexpr int kTokens = 128;
constexpr int kOps = 2048;
constexpr int kOpsPerChunk = 256;
constexpr uint64_t kTensorBytes = 4;
constexpr uint64_t kStream = 1;

TestChunks Chunk(uint64_t sequence, int token, int first_op) {
  std::vector<TestTensor> records;
  for (int i = 0; i < 2 * kOpsPerChunk; ++i) {
    const int op = first_op + i / 2;
    records.push_back(MakeTensor(
        "r", token, "layers." + std::to_string(op) + ".mlp", kTensorBytes));
    records.back().key.io = i % 2 == 0 ? Io::kInput : Io::kOutput;
  }
  return TestChunks(kStream, sequence, records);
}

// The store of all benchmarks. It is created once.
Store& FilledStore() {
  static const TempDir& dir = *new TempDir;
  static Store& store = *[] {
    StoreOptions options;
    options.directory = dir / "store";
    auto opened = Store::Open(options, Env::Posix());
    MSITD_CHECK(opened.ok());
    MSITD_CHECK((*opened)->runs().CreateRun({"r", 0, {}}).ok());
    uint64_t chunk_sequence = 0;
    for (int token = 0; token < kTokens; ++token) {
      for (int op = 0; op < kOps; op += kOpsPerChunk) {
        TestChunks chunks = Chunk(chunk_sequence++, token, op);
        MSITD_CHECK((*opened)->log().Append(chunks.span()).ok());
      }
    }
    return opened->release();
  }();
  return store;
}

void Scan(benchmark::State& state, const std::string& pattern, int64_t count) {
  NamedRuns runs(FilledStore().readers());
  Selector selector;
  selector.op_patterns = {pattern};
  for (auto _ : state) {
    auto scan = runs.Scan("r", selector, "");
    MSITD_CHECK(scan.ok());
    TensorInfo tensor;
    int64_t found = 0;
    while (*(*scan)->Next(tensor)) ++found;
    MSITD_CHECK(found == count);
  }
}
BENCHMARK_CAPTURE(Scan, ByName, "layers.77.mlp", 2 * kTokens);
BENCHMARK_CAPTURE(Scan, ByPattern, "*.77.*", 2 * kTokens);
BENCHMARK_CAPTURE(Scan, OneOfTen, "*7.mlp", 2 * kTokens * 205);
BENCHMARK_CAPTURE(Scan, All, "*.mlp", 2 * kTokens * kOps);

}  // namespace
}  // namespace msitd::storage
