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
       {"/main.js",   "/comparison.js", "/rows.js",  "/row.js",
        "/runs.js",   "/groups.js",     "/heat.js",  "/grid.js",
        "/canvas.js", "/histogram.js",  "/table.js", "/filters.js",
        "/facts.js",  "/head.js",       "/tip.js",   "/node.js",
        "/curves.js", "/plot.js",       "/tree.js",  "/values.js",
        "/logits.js", "/modules.js",    "/scale.js"}) {
    const PageFile* const module = FindPageFile(name);
    ASSERT_NE(module, nullptr) << name;
    const std::string text(module->text);
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end;
         it != end; ++it) {
      EXPECT_NE(FindPageFile((*it)[1].str()), nullptr) << (*it)[1];
    }
  }
}

TEST(PageFilesTest, ModulesHaveNoComments) {
  for (const char* name :
       {"/main.js", "/facts.js", "/values.js", "/table.js"}) {
    const PageFile* const module = FindPageFile(name);
    ASSERT_NE(module, nullptr) << name;
    EXPECT_EQ(module->text.find("/**"), std::string_view::npos) << name;
    EXPECT_EQ(module->text.find("SPDX"), std::string_view::npos) << name;
    EXPECT_NE(module->text.find("import "), std::string_view::npos) << name;
  }
  // A cast of a type loses its comment, and keeps its value.
  const std::string_view table = FindPageFile("/table.js")->text;
  EXPECT_NE(table.find("? (document.activeElement).dataset.i"),
            std::string_view::npos);
}

TEST(PageFilesTest, HasNothingElse) {
  for (const char* target :
       {"", "//", "/index.html", "/..", "/../main.js", "/%2e%2e/main.js",
        "/./main.js", "/main.js/", "/main.js?", "/etc/passwd", "/MAIN.JS",
        "main.js", "/jsconfig.json", "/report.js", "/frozen.js"}) {
    EXPECT_EQ(FindPageFile(target), nullptr) << target;
  }
}

}  // namespace
}  // namespace msitd::web
