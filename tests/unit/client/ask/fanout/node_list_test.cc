// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/node_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace msitd::ask {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Endpoints(std::string_view list) {
  std::vector<std::string> out;
  const auto nodes = ParseNodes(list);
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  if (!nodes.ok()) return out;
  for (const NodeAddress& node : *nodes) out.push_back(node.endpoint);
  return out;
}

TEST(NodeListTest, ExpandsListsOfSlurm) {
  EXPECT_THAT(*ExpandHosts("node[01-03,7],gpu5"),
              ElementsAre("node01", "node02", "node03", "node7", "gpu5"));
  EXPECT_THAT(*ExpandHosts("r[1-2]n[08-09]x"),
              ElementsAre("r1n08x", "r1n09x", "r2n08x", "r2n09x"));
  EXPECT_THAT(*ExpandHosts("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(*ExpandHosts("one"), ElementsAre("one"));
}

TEST(NodeListTest, RefusesWhatIsNoListOfHosts) {
  for (const char* list :
       {"", ",", "n[", "n[1-3", "n]1[", "n[[1]]", "n[]", "n[2-1]", "n[a]",
        "n[1-]", "n[-1]", "n[1-99999999]", "n[0-4294967295]", "n[99999999999]",
        "a[1-100]b[1-100]", "n[1-2],]"}) {
    EXPECT_FALSE(ExpandHosts(list).ok()) << list;
  }
  EXPECT_EQ(ExpandHosts("n[1-1024]")->size(), kNodesMax);
  EXPECT_FALSE(ExpandHosts("n[1-1024],m").ok());
}

TEST(NodeListTest, KeepsEachNodeOnceInOrder) {
  EXPECT_THAT(Endpoints("b:1, a:2 ,b:1,/tmp/x.sock,unix:/tmp/y.sock"),
              ElementsAre("b:1", "a:2", "/tmp/x.sock", "unix:/tmp/y.sock"));
}

TEST(NodeListTest, RefusesWhatIsNoEndpoint) {
  for (const char* list : {"", " , ", "a", "a:0", "a:1,b", "a@b:1", "dns:///a",
                           "dns:///:1", "slurm:x", "slurm:0"}) {
    EXPECT_FALSE(ParseNodes(list).ok()) << list;
  }
}

TEST(NodeListTest, NodesOfTheJobHaveAPort) {
  setenv("SLURM_NODELIST", "old1", 1);
  EXPECT_THAT(Endpoints("slurm:"), ElementsAre("old1:7741"));
  setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
  EXPECT_THAT(Endpoints("slurm:5000"), ElementsAre("n1:5000", "n2:5000"));
  setenv("SLURM_JOB_NODELIST", "n[1-", 1);
  EXPECT_THAT(std::string(ParseNodes("slurm:").status().message()),
              HasSubstr("SLURM_JOB_NODELIST"));
  unsetenv("SLURM_JOB_NODELIST");
  unsetenv("SLURM_NODELIST");
  EXPECT_FALSE(ParseNodes("slurm:").ok());
}

TEST(NodeListTest, NameIsAllOfItsAddresses) {
  const auto nodes = ParseNodes("dns:///127.0.0.1:9");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(*nodes, ElementsAre(NodeAddress{"127.0.0.1:9", "127.0.0.1"}));
}

TEST(NodeListTest, FileHasCommentsAndLists) {
  const std::string path = testing::TempDir() + "/nodes";
  std::ofstream(path) << "# all\n\na:1,b:2 # two\nc:3";
  const auto nodes = ReadNodes(path);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->size(), 3u);
  std::ofstream(path) << "# none\n";
  EXPECT_FALSE(ReadNodes(path).ok());
  EXPECT_FALSE(ReadNodes(path + ".gone").ok());
}

}  // namespace
}  // namespace msitd::ask
