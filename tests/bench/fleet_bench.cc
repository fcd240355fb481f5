// SPDX-License-Identifier: Apache-2.0

// Rate at which index entries are transferred to another daemon over a Unix
// socket, and the cost of each step. A daemon in this process holds the inputs
// and outputs of 2,048 ops for each of MSITD_BENCH_FLEET_TOKENS tokens.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/peers/remote_source.h"
#include "daemon/query/group_digest.h"
#include "daemon/server/node_server.h"
#include "protos/base/check.h"
#include "storage/batch/entry_batch.h"
#include "storage/env/env.h"
#include "storage/store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

namespace msitd::bench {
namespace {

using testing::MakeTensor;
using testing::TempDir;
using testing::TestChunks;
using testing::TestTensor;

constexpr int kOps = 2048;
constexpr int kOpsPerChunk = 256;
constexpr uint64_t kTensorBytes = 64;

int64_t Tokens() {
  const char* const text = std::getenv("MSITD_BENCH_FLEET_TOKENS");
  return text == nullptr ? 128 : std::stoll(text);
}

TestChunks Chunk(uint64_t sequence, int64_t token, int first_op) {
  std::vector<TestTensor> records;
  for (int i = 0; i < 2 * kOpsPerChunk; ++i) {
    const int op = first_op + i / 2;
    records.push_back(MakeTensor(
        "r", token, "model.layers." + std::to_string(op) + ".mlp.act",
        kTensorBytes, static_cast<uint32_t>(op)));
    records.back().key.io = i % 2 == 0 ? Io::kInput : Io::kOutput;
    records.back().sequence = static_cast<uint64_t>(2 * first_op + i);
  }
  return TestChunks(1, sequence, records);
}

// A node with one run. It is created once.
struct Node {
  TempDir directory;
  config::DaemonConfig config;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<server::NodeServer> server;
  std::unique_ptr<peers::RemoteSource> source;
  std::unique_ptr<storage::RunReader> local;
  std::unique_ptr<storage::RunReader> far;

  Node() {
    storage::StoreOptions options;
    options.directory = directory / "store";
    auto opened = storage::Store::Open(options, storage::Env::Posix());
    MSITD_CHECK(opened.ok());
    store = *std::move(opened);
    MSITD_CHECK(store->runs().CreateRun({"r", 0, {}}).ok());
    uint64_t sequence = 0;
    for (int64_t token = 0; token < Tokens(); ++token) {
      for (int op = 0; op < kOps; op += kOpsPerChunk) {
        TestChunks chunks = Chunk(sequence++, token, op);
        MSITD_CHECK(store->log().Append(chunks.span()).ok());
      }
    }
    MSITD_CHECK(store->runs().SealRun("r").ok());
    config.socket_dir = directory / "run";
    config.shared_memory = false;  // Avoids log lines about shared memory.
    auto started = server::NodeServer::Start(config, *store);
    MSITD_CHECK(started.ok());
    server = *std::move(started);
    const std::string endpoint = server->endpoints()[0];
    source = std::make_unique<peers::RemoteSource>(
        std::vector<std::string>{endpoint}, peers::PeerOptions());
    auto here = store->readers().OpenRun("r");
    MSITD_CHECK(here.ok());
    local = *std::move(here);
    auto there = source->Open({endpoint, "r"}, storage::WaitCheck());
    MSITD_CHECK(there.ok());
    far = *std::move(there);
  }
};

Node& TheNode() {
  static Node& node = *new Node;
  return node;
}

template <typename OnEntry>
void ScanAll(benchmark::State& state, storage::RunReader& run,
             OnEntry on_entry) {
  const int64_t expected = Tokens() * kOps * 2;
  for (auto _ : state) {
    auto scan = run.Scan({}, "");
    MSITD_CHECK(scan.ok());
    storage::TensorInfo entry;
    int64_t count = 0;
    while (*(*scan)->Next(entry)) {
      on_entry(entry);
      ++count;
    }
    MSITD_CHECK(count == expected);
  }
  state.SetItemsProcessed(state.iterations() * expected);
}

void Index(benchmark::State& state) {
  ScanAll(state, *TheNode().local, [](const storage::TensorInfo&) {});
}
BENCHMARK(Index)->UseRealTime()->Unit(benchmark::kMillisecond);

void IndexIntoBatches(benchmark::State& state) {
  storage::EntryBatchWriter writer;
  uint64_t bytes = 0;
  ScanAll(state, *TheNode().local, [&](const storage::TensorInfo& entry) {
    writer.Add(entry);
    if (writer.is_full()) bytes += writer.Finish().size();
  });
  benchmark::DoNotOptimize(bytes);
}
BENCHMARK(IndexIntoBatches)->UseRealTime()->Unit(benchmark::kMillisecond);

void Remote(benchmark::State& state) {
  ScanAll(state, *TheNode().far, [](const storage::TensorInfo&) {});
}
BENCHMARK(Remote)->UseRealTime()->Unit(benchmark::kMillisecond);

void Digests(benchmark::State& state) {
  for (auto _ : state) {
    auto scan = query::GroupDigestScan::Begin(*TheNode().local, {}, "");
    MSITD_CHECK(scan.ok());
    query::GroupDigest digest;
    while (*(*scan)->Next(digest, [] { return absl::OkStatus(); })) {
    }
  }
  state.SetItemsProcessed(state.iterations() * Tokens() * kOps * 2);
}
BENCHMARK(Digests)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace msitd::bench
