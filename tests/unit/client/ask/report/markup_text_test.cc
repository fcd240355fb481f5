// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/markup_text.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

TEST(MarkupTextTest, NothingIsMarkup) {
  EXPECT_EQ(MarkupText("</td a=\"1\">&amp; it's"),
            "&lt;/td a=&quot;1&quot;&gt;&amp;amp; it's");
  EXPECT_EQ(MarkupText(""), "");
}

}  // namespace
}  // namespace msitd::ask
