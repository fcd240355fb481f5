// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msit_order.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using Modules = std::vector<MsitModule>;

// Returns layers with one linear module each, in the order in which their calls
// end.
Modules Layers(int count) {
  Modules out;
  for (int i = 0; i < count; ++i) {
    const std::string layer = "root.layers." + std::to_string(i);
    out.push_back({layer + ".fc", 0});
    out.push_back({layer, 0});
  }
  out.push_back({"root", 0});
  return out;
}

std::vector<std::string> NamesOf(const Modules& modules) {
  std::vector<std::string> out;
  for (const MsitModule& module : modules) out.push_back(module.name);
  return out;
}

// Gives modules the times of files that are written one after another. The
// clock advances once every `per_step` files.
Modules Written(Modules modules, int64_t per_step = 1) {
  int64_t number = 0;
  for (MsitModule& module : modules) module.time = 1000 + number++ / per_step;
  return modules;
}

TEST(MsitOrderTest, TimesOfAnOriginalAreTrusted) {
  for (const int64_t per_step : {1, 3, 6}) {
    Modules modules = Written(Layers(12), per_step);
    const std::vector<std::string> names = NamesOf(modules);
    std::reverse(modules.begin(), modules.end());
    EXPECT_TRUE(OrderByTime(modules)) << per_step;
    EXPECT_EQ(NamesOf(modules), names) << per_step;
  }
}

TEST(MsitOrderTest, TimesOfACopyAreNot) {
  const auto by_bytes = [](const MsitModule& a, const MsitModule& b) {
    return a.name < b.name;
  };
  const std::vector<std::string> names = NamesOf(Layers(12));
  Modules copy = Layers(12);
  std::sort(copy.begin(), copy.end(), by_bytes);
  Modules backwards = copy;
  std::reverse(backwards.begin(), backwards.end());
  Modules reversed = Layers(12);
  std::reverse(reversed.begin(), reversed.end());
  // The times that a coarse clock gives to files that are unpacked together.
  const Modules at_once = Written(copy, 100);
  for (Modules modules :
       {Written(copy), Written(backwards), Written(reversed), at_once}) {
    EXPECT_FALSE(OrderByTime(modules));
    EXPECT_EQ(NamesOf(modules), names);
  }
}

TEST(MsitOrderTest, ModulesThatProveNothingHaveNoKnownOrder) {
  Modules flat = {{"root.b", 1}, {"root.a", 2}, {"root.c", 3}};
  EXPECT_FALSE(OrderByTime(flat));
  EXPECT_THAT(NamesOf(flat), ElementsAre("root.a", "root.b", "root.c"));
  // Siblings with equal times, in an order that is otherwise certain.
  Modules modules = Written(Layers(12));
  modules.insert(modules.begin() + 1, {"root.layers.0.act", 1000});
  EXPECT_FALSE(OrderByTime(modules));
}

TEST(MsitOrderTest, PartsOfEachOtherNeedNoTimes) {
  Modules chain = {{"root", 5}, {"root.fc", 5}};
  EXPECT_TRUE(OrderByTime(chain));
  EXPECT_THAT(NamesOf(chain), ElementsAre("root.fc", "root"));
  Modules none;
  EXPECT_TRUE(OrderByTime(none));
}

TEST(MsitOrderTest, ATextSaysTheOrder) {
  Modules modules = {{"root", 1}, {"root.a", 2}, {"root.b", 3}};
  EXPECT_TRUE(OrderByText("root.b\nroot.a\nroot\nroot.b\n", modules));
  EXPECT_THAT(NamesOf(modules), ElementsAre("root.b", "root.a", "root"));
  EXPECT_FALSE(OrderByText("root.a", modules));
  EXPECT_THAT(NamesOf(modules), ElementsAre("root.a", "root.b", "root"));
  EXPECT_FALSE(OrderByText("", modules));
}

}  // namespace
}  // namespace msitd::trees
