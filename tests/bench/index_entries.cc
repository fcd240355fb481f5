// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/index_entries.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>

#include "benchmark/benchmark.h"
#include "protos/base/limits.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "tests/bench/bench_daemon.h"

namespace msitd::bench {
namespace {

constexpr int64_t kOpsPerToken = 1000;
constexpr uint64_t kTensorBytes = 1024;

std::string EntryValue() {
  storage::IndexValue value;
  value.dtype = DType::kFloat32;
  value.dims = {kTensorBytes / sizeof(float)};
  value.tensor_bytes = kTensorBytes;
  value.sequence = 123'456;
  value.segment_id = 1;
  value.offset = uint64_t{300} << 20;
  value.hash = {0x0123456789abcdef, 0xfedcba9876543210};
  value.summary.count = kTensorBytes / sizeof(float);
  value.summary.min = value.summary.max = 0.5;
  value.summary.sum = value.summary.l1 = 128;
  value.summary.sum_squares = 64;
  std::string out;
  storage::EncodeIndexValue(value, out);
  return out;
}

void Check(const rocksdb::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

}  // namespace

IndexEntries::IndexEntries()
    : folder_(NewDirectory(BenchDaemon::BenchDir() + "/rocksdb")),
      value_(EntryValue()) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{32} << 20;
  rocksdb::DB* opened = nullptr;
  Check(rocksdb::DB::Open(options, folder_, &opened));
  db_.reset(opened);
}

IndexEntries::~IndexEntries() {
  db_.reset();
  std::filesystem::remove_all(folder_);
}

void IndexEntries::Put(int64_t first, int64_t count, uint32_t rank) {
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  storage::IndexKey key;
  key.rank = rank;
  key.io = Io::kOutput;
  const int64_t end = first + count;
  for (int64_t begin = first; begin < end; begin += kChunkRecordsMax) {
    rocksdb::WriteBatch batch;
    for (int64_t n = begin; n < std::min(end, begin + kChunkRecordsMax); ++n) {
      key.token = static_cast<uint64_t>(n / kOpsPerToken);
      key.op = static_cast<uint32_t>(n % kOpsPerToken);
      Check(batch.Put(storage::View(EncodeIndexKey(key)), value_));
    }
    Check(db_->Write(write, &batch));
  }
}

void IndexEntries::Flush() { Check(db_->Flush(rocksdb::FlushOptions())); }

int64_t IndexEntries::Scan() const {
  const std::unique_ptr<rocksdb::Iterator> it(
      db_->NewIterator(rocksdb::ReadOptions()));
  int64_t count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    benchmark::DoNotOptimize(it->value().data());
    ++count;
  }
  return count;
}

}  // namespace msitd::bench
