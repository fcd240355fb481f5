// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace msitd::storage {

// Makes a logger that passes errors of RocksDB on to StorageLogger(), and
// warnings as debug messages, so that it keeps no file of its own: a disk that
// is full must not be what it writes its complaints to.
std::shared_ptr<rocksdb::Logger> MakeIndexLogger();

}  // namespace msitd::storage
