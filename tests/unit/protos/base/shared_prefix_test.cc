// SPDX-License-Identifier: Apache-2.0
#include "protos/base/shared_prefix.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd {
namespace {

TEST(SharedPrefixTest, EndsAtTheFirstDifference) {
  for (const size_t size : {0, 1, 7, 8, 9, 63, 64, 200}) {
    const std::string a(size, 'x');
    EXPECT_EQ(SharedPrefixBytes(a, a), size);
    EXPECT_EQ(SharedPrefixBytes(a, a + "y"), size);
    EXPECT_EQ(SharedPrefixBytes(a + "y", a), size);
    for (size_t i = 0; i < size; ++i) {
      std::string b = a;
      b[i] = '\xff';
      EXPECT_EQ(SharedPrefixBytes(a, b), i);
      EXPECT_EQ(SharedPrefixBytes(b, a + a), i);
    }
  }
}

}  // namespace
}  // namespace msitd
