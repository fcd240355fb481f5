// SPDX-License-Identifier: Apache-2.0

// Rate at which records become durable in a store, compared with puts of
// entries of the same sizes into a bare RocksDB, in batches of the same count.
// All stores are in TMPDIR, so its file system is what is measured.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "protos/base/check.h"
#include "storage/env/env.h"
#include "storage/index/db/index_key.h"
#include "storage/store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::MakeTensor;
using ::msitd::testing::TempDir;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;

constexpr int kRecordsPerChunk = 512;
constexpr int kChunksPerAppend = 8;
constexpr uint64_t kRecordBytes = 1024;
// Size of one entry of the primary index.
constexpr size_t kEntryBytes = 108;

// Creates chunks of one token each, whose ops are not sorted by name.
TestChunks MakeChunks() {
  TestChunks chunks;
  for (int chunk = 0; chunk < kChunksPerAppend; ++chunk) {
    std::vector<TestTensor> records;
    for (int i = 0; i < kRecordsPerChunk; ++i) {
      const int op = i * 193 % kRecordsPerChunk;
      records.push_back(MakeTensor("r", chunk, "layer." + std::to_string(op),
                                   kRecordBytes, 1 + i));
    }
    chunks.Add(/*stream_id=*/1, chunk, records);
  }
  return chunks;
}

void AppendRecords(benchmark::State& state) {
  const TempDir dir;
  StoreOptions options;
  options.directory = dir / "store";
  auto store = Store::Open(options, Env::Posix());
  MSITD_CHECK(store.ok());
  MSITD_CHECK((*store)->runs().CreateRun({"r", 0, {}}).ok());
  TestChunks chunks = MakeChunks();
  for (auto _ : state) {
    MSITD_CHECK((*store)->log().Append(chunks.span()).ok());
    for (chunk::Chunk& chunk : chunks.span()) {
      chunk.header().chunk_sequence += kChunksPerAppend;
      for (auto& record : chunk.records()) record.token += kChunksPerAppend;
    }
  }
  state.SetItemsProcessed(state.iterations() * kRecordsPerChunk *
                          kChunksPerAppend);
}
BENCHMARK(AppendRecords)->UseRealTime()->MinTime(3);

void PutEntries(benchmark::State& state) {
  const TempDir dir;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{32} << 20;
  rocksdb::DB* opened = nullptr;
  MSITD_CHECK(rocksdb::DB::Open(options, dir / "db", &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  const std::string value(kEntryBytes, 'v');
  IndexKey key;
  for (auto _ : state) {
    rocksdb::WriteBatch batch;
    for (int chunk = 0; chunk < kChunksPerAppend; ++chunk, ++key.token) {
      for (key.op = 0; key.op < kRecordsPerChunk; ++key.op) {
        MSITD_CHECK(batch.Put(View(EncodeIndexKey(key)), value).ok());
      }
    }
    MSITD_CHECK(db->Write(write, &batch).ok());
  }
  state.SetItemsProcessed(state.iterations() * kRecordsPerChunk *
                          kChunksPerAppend);
}
BENCHMARK(PutEntries)->UseRealTime()->MinTime(3);

}  // namespace
}  // namespace msitd::storage
