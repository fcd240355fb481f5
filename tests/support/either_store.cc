// SPDX-License-Identifier: Apache-2.0
#include "tests/support/either_store.h"

#include <utility>

#include "protos/base/check.h"
#include "storage/env/env.h"

namespace msitd::testing {

std::string StoreName(const ::testing::TestParamInfo<StoreKind>& info) {
  return info.param == StoreKind::kFake ? "Fake" : "Real";
}

EitherStore::EitherStore(StoreKind kind) {
  if (kind == StoreKind::kFake) {
    auto fake = std::make_unique<FakeStore>();
    fake_ = fake.get();
    store_ = std::move(fake);
    return;
  }
  storage::StoreOptions options;
  options.directory = directory_ / "store";
  options.index_write_buffer_bytes = uint64_t{1} << 20;
  options.index_cache_bytes = uint64_t{1} << 20;
  auto store = storage::Store::Open(options, storage::Env::Posix());
  MSITD_CHECK(store.ok());
  store_ = *std::move(store);
}

}  // namespace msitd::testing
