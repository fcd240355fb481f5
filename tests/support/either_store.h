// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "storage/store.h"
#include "tests/support/fake_store.h"
#include "tests/support/temp_dir.h"

namespace msitd::testing {

enum class StoreKind { kFake, kReal };

// Names a test of a suite that runs on both kinds of store.
std::string StoreName(const ::testing::TestParamInfo<StoreKind>& info);

// A store of either kind. A real one has its own directory in memory.
class EitherStore {
 public:
  explicit EitherStore(StoreKind kind);

  storage::Store& operator*() { return *store_; }
  // Null if the store is real.
  FakeStore* fake() { return fake_; }

 private:
  TempDir directory_ = TempDir::InMemory();
  std::unique_ptr<storage::Store> store_;
  FakeStore* fake_ = nullptr;
};

// Base of suites that run on both kinds of store.
class EitherStoreTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  EitherStore either_{GetParam()};
  storage::Store& store_ = *either_;
};

}  // namespace msitd::testing

// Runs all tests of `suite`, a class derived from EitherStoreTest, on both.
#define MSITD_ON_BOTH_STORES(suite)                          \
  INSTANTIATE_TEST_SUITE_P(                                  \
      Stores, suite,                                         \
      ::testing::Values(::msitd::testing::StoreKind::kFake,  \
                        ::msitd::testing::StoreKind::kReal), \
      ::msitd::testing::StoreName)
