// SPDX-License-Identifier: Apache-2.0
#include "protos/endpoint/endpoint_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace msitd::endpoint {
namespace {

using Origin = Choice::Origin;
using Variables = std::map<std::string, std::string>;

std::string Replaced(std::string text, const std::string& word,
                     const std::string& value) {
  const size_t at = text.find(word);
  return at == text.npos ? text : text.replace(at, word.size(), value);
}

// A line of the table.
struct Case {
  std::string given;
  Variables variables;
  std::string service;
  std::string runtime;
  std::string origin;
  std::string is_default;
  std::string endpoint;
  std::string line;
};

std::vector<Case> ReadCases() {
  std::vector<Case> out;
  std::ifstream file(MSITD_ENDPOINT_RULE);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    Case one;
    std::string first;
    std::string second;
    std::istringstream(line) >> one.given >> first >> second >> one.service >>
        one.runtime >> one.origin >> one.is_default >> one.endpoint;
    if (one.given == "-") one.given.clear();
    if (first != "-") one.variables["MSITD_ENDPOINT"] = first;
    if (second != "-") one.variables["MSITCTL_ENDPOINT"] = second;
    one.line = line;
    out.push_back(std::move(one));
  }
  return out;
}

std::string NameOf(Origin origin) {
  switch (origin) {
    case Origin::kGiven:
      return "given";
    case Origin::kVariable:
      return "variable";
    case Origin::kSystem:
      return "system";
    case Origin::kPersonal:
      return "personal";
    case Origin::kNone:
      return "none";
  }
  return "";
}

// The folders of a case.
class UserFolders {
 public:
  explicit UserFolders(const Case& one) : variables_(one.variables) {
    const std::string uid = std::to_string(::getuid());
    for (const char* const name : {"service", "runtime", "users"}) {
      std::filesystem::create_directory(At(name));
    }
    if (one.service != "none") std::ofstream(At("service") + "/" + one.service);
    if (one.runtime == "user") {
      std::filesystem::create_directory(At("users/") + uid);
    }
    std::string& runtime = variables_["XDG_RUNTIME_DIR"];
    if (one.runtime == "set") runtime = At("runtime");
    if (one.runtime == "missing") runtime = At("missing");
    if (one.runtime == "relative") runtime = ".";
    if (one.runtime == "long") {
      runtime = At(std::string(100, 'x'));
      std::filesystem::create_directory(runtime);
    }
  }

  std::string At(const std::string& name) const {
    return dir_.path() + "/" + name;
  }

  Surroundings around() const {
    Surroundings out;
    out.variable = [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::string() : found->second;
    };
    out.uid = ::getuid();
    out.system_dir = At("service");
    out.runtime_root = At("users");
    out.temporary_root = At("tmp");
    return out;
  }

 private:
  testing::TempDir dir_;
  Variables variables_;
};

TEST(EndpointRuleTest, FollowsTheTable) {
  const std::vector<Case> cases = ReadCases();
  EXPECT_GE(cases.size(), 14u);
  for (const Case& one : cases) {
    const UserFolders place(one);
    const std::string uid = std::to_string(::getuid());
    std::string expected = Replaced(one.endpoint, "UID", uid);
    expected = Replaced(expected, "RUNTIME", place.At("runtime"));
    expected = Replaced(expected, "USER", place.At("users/") + uid);
    expected = Replaced(expected, "TMP", place.At("tmp"));
    expected = Replaced(expected, "SERVICE", place.At("service"));
    const Choice choice = ChooseEndpoint(one.given, place.around());
    EXPECT_EQ(NameOf(choice.origin), one.origin) << one.line;
    EXPECT_EQ(choice.is_default ? "yes" : "no", one.is_default) << one.line;
    EXPECT_EQ(choice.endpoint, expected) << one.line;
    EXPECT_EQ(choice.problem, "");
  }
}

}  // namespace
}  // namespace msitd::endpoint
