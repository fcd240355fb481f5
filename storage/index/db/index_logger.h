// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace msitd::storage {

// Creates a logger that forwards errors of RocksDB to StorageLogger(), and
// warnings as debug messages. With it, RocksDB writes no log file of its own,
// which could not record that the disk is full.
std::shared_ptr<rocksdb::Logger> MakeIndexLogger();

}  // namespace msitd::storage
