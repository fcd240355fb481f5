// SPDX-License-Identifier: Apache-2.0
#include "client/web/page_files.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace msitd::web {
namespace {

TEST(PageFilesTest, HasThePageAndItsFiles) {
  const PageFile* const page = FindPageFile("/");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  const std::string text(page->text);
  const std::regex reference(R"re((?:href|src)="(/[^"#]+)")re");
  int count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), reference), end;
       it != end; ++it, ++count) {
    EXPECT_NE(FindPageFile((*it)[1].str()), nullptr) << (*it)[1];
  }
  EXPECT_GE(count, 4);
}

TEST(PageFilesTest, HasTheModulesThatModulesImport) {
  const std::regex reference(R"re(from "\.(/[a-z]+\.js)")re");
  for (const char* name :
       {"/main.js", "/comparison.js", "/rows.js", "/row.js", "/runs.js",
        "/heat.js", "/histogram.js", "/node.js", "/curves.js", "/plot.js",
        "/tree.js", "/values.js", "/logits.js"}) {
    const PageFile* const module = FindPageFile(name);
    ASSERT_NE(module, nullptr) << name;
    const std::string text(module->text);
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end;
         it != end; ++it) {
      EXPECT_NE(FindPageFile((*it)[1].str()), nullptr) << (*it)[1];
    }
  }
}

TEST(PageFilesTest, HasNothingElse) {
  for (const char* target :
       {"", "//", "/index.html", "/..", "/../main.js", "/%2e%2e/main.js",
        "/./main.js", "/main.js/", "/main.js?", "/etc/passwd", "/MAIN.JS",
        "main.js", "/jsconfig.json"}) {
    EXPECT_EQ(FindPageFile(target), nullptr) << target;
  }
}

}  // namespace
}  // namespace msitd::web
