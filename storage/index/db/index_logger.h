// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace msitd::storage {

// Makes a logger that passes errors of RocksDB on to StorageLogger(), and
// warnings as debug messages. RocksDB so keeps no log file of its own, which
// could not tell of a full disk.
std::shared_ptr<rocksdb::Logger> MakeIndexLogger();

}  // namespace msitd::storage
