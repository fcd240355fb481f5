// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace rocksdb {
class DB;
}

namespace msitd::bench {

// A bare RocksDB without a write-ahead log, in MSITD_BENCH_DIR. It contains the
// entries that the index of a store has for tensors of 1 KiB, with 1000 ops for
// each token, on one rank or several.
class IndexEntries {
 public:
  IndexEntries();
  ~IndexEntries();
  IndexEntries(const IndexEntries&) = delete;
  IndexEntries& operator=(const IndexEntries&) = delete;

  // Puts the entries of `count` tensors, starting with number `first`, in
  // batches as large as the largest chunk.
  void Put(int64_t first, int64_t count, uint32_t rank = 0);

  // Flushes the memory to the disk.
  void Flush();

  // Reads every entry and returns their number.
  int64_t Scan() const;

 private:
  const std::string folder_;
  const std::string value_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace msitd::bench
