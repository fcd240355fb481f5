// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/msprobe_names.h"

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "protos/base/limits.h"

namespace msitd::names {
namespace {

using Part = MsprobePart;

struct Case {
  const char* entry;
  Part part;
  const char* keys;
  const char* op;
  int32_t call;
  Io io;
};

// Names in the dumps of all releases.
constexpr Case kCases[] = {
    {"Functional.conv2d.1.backward", Part::kInput, "0", "Functional.conv2d", 1,
     Io::kGradOutput},
    {"Functional.conv2d.1.backward", Part::kOutput, "2", "Functional.conv2d", 1,
     Io::kGradInput},
    {"Functional.linear.0.forward", Part::kInput, "1", "Functional.linear", 0,
     Io::kInput},
    {"Functional.scaled.12.forward", Part::kKwargs, "mask", "Functional.scaled",
     12, Io::kInput},
    {"Torch._foreach_norm.0.forward", Part::kInput, "0.3",
     "Torch._foreach_norm", 0, Io::kInput},
    {"Tensor.__matmul__.3.forward", Part::kOutput, "0", "Tensor.__matmul__", 3,
     Io::kOutput},
    {"__main__.mine.0.forward", Part::kInput, "0", "__main__.mine", 0,
     Io::kInput},
    {"my.pack_age.op.2.backward", Part::kInput, "0", "my.pack_age.op", 2,
     Io::kGradOutput},
    {"Module.fc.Linear.forward.1", Part::kInput, "0", "Module.fc.Linear", 1,
     Io::kInput},
    {"Module.1.0.Linear.backward.0", Part::kInput, "0", "Module.1.0.Linear", 0,
     Io::kGradOutput},
    {"Module.fc.Linear.backward.0", Part::kOutput, "0", "Module.fc.Linear", 0,
     Io::kGradInput},
    {"Module.fc.Linear.forward.0", Part::kParameters, "weight",
     "Module.fc.Linear", 0, Io::kWeight},
    {"Module.fc.Linear.parameters_grad.1", Part::kWhole, "bias",
     "Module.fc.Linear", 1, Io::kGradWeight},
    {"Cell.net.Dense.forward.0", Part::kOutput, "0", "Cell.net.Dense", 0,
     Io::kOutput},
    {"Mint.add.0.forward", Part::kOutput, "0", "Mint.add", 0, Io::kOutput},
    {"y.0.debug", Part::kWhole, "", "y", 0, Io::kState},
    {"y_grad.4.debug", Part::kWhole, "a.0", "y_grad", 4, Io::kState},
    {"Module.a.forward.1.debug", Part::kWhole, "", "Module.a.forward", 1,
     Io::kState},
};

TEST(MsprobeNamesTest, NamesHaveKeysAndKeysHaveNames) {
  for (const Case& one : kCases) {
    const MsprobeName name{one.entry, one.part, one.keys};
    const auto key = KeyOfMsprobe(name);
    ASSERT_TRUE(key.has_value()) << one.entry;
    EXPECT_EQ(key->op, one.op);
    EXPECT_EQ(key->call, one.call);
    EXPECT_EQ(key->io, one.io) << one.entry;
    EXPECT_EQ(key->index, one.keys);
    EXPECT_EQ(MsprobeNameOf(*key), name);
    EXPECT_EQ(KeyOfMsprobeLeaf(MsprobeFileName(name)), key);
  }
}

TEST(MsprobeNamesTest, SeedHasNoCountOfGradientsOfParameters) {
  const MsprobeName name{"Module.fc.Linear.parameters_grad", Part::kWhole,
                         "weight"};
  const auto key = KeyOfMsprobe(name);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(*key,
            (MsprobeKey{"Module.fc.Linear", 0, Io::kGradWeight, "weight"}));
}

TEST(MsprobeNamesTest, LeavesAreCutAtTheirLastEntry) {
  EXPECT_EQ(KeyOfMsprobeLeaf("Module.fc.Linear.parameters_grad.weight"),
            (MsprobeKey{"Module.fc.Linear", 0, Io::kGradWeight, "weight"}));
  EXPECT_EQ(KeyOfMsprobeLeaf("Module.forward.0.input.A.forward.1.input.0.x"),
            (MsprobeKey{"Module.forward.0.input.A", 1, Io::kInput, "0.x"}));
  for (const char* leaf :
       {"", ".", "x", "Functional.linear.0.forward",
        "Functional.linear.0.forward.inputs.0",
        "Functional.linear.0.backward.parameters.w", "0.forward.input.0",
        "Functional.linear.0.sideways.input.0"}) {
    EXPECT_EQ(KeyOfMsprobeLeaf(leaf), std::nullopt) << leaf;
  }
}

TEST(MsprobeNamesTest, WhatNoReleaseWritesHasNoKey) {
  for (const char* entry : {"",
                            "x",
                            "optimizer",
                            "clip_grad",
                            "Functional.linear.forward",
                            "Functional.linear.forward.0",
                            "Functional.linear.0.sideways",
                            "Functional.linear.-1.forward",
                            "Functional.linear.01.forward",
                            "Functional.linear.+1.forward",
                            "Module.fc.Linear.-0.debug",
                            "Functional.linear.-0.forward",
                            "Functional.linear.1073741824.forward",
                            ".0.forward",
                            "0.forward",
                            "Module.fc.Linear.0.forward",
                            "Module.fc.Linear.forward",
                            "Module.forward.0",
                            "y.debug",
                            ".0.debug",
                            "Functional.linear.parameters_grad.0"}) {
    for (const Part part : {Part::kInput, Part::kWhole}) {
      EXPECT_EQ(KeyOfMsprobe({entry, part, "0"}), std::nullopt) << entry;
    }
  }
}

TEST(MsprobeNamesTest, PartsBelongToTheirEntries) {
  EXPECT_EQ(KeyOfMsprobe({"F.a.0.backward", Part::kKwargs, "x"}), std::nullopt);
  EXPECT_EQ(KeyOfMsprobe({"F.a.0.backward", Part::kParameters, "x"}),
            std::nullopt);
  EXPECT_EQ(KeyOfMsprobe({"F.a.0.forward", Part::kWhole, "0"}), std::nullopt);
  EXPECT_EQ(KeyOfMsprobe({"y.0.debug", Part::kInput, "0"}), std::nullopt);
  // These names would be parsed as different ones.
  EXPECT_EQ(KeyOfMsprobe({"F.a.0.forward", Part::kKwargs, "0"}), std::nullopt);
  EXPECT_EQ(KeyOfMsprobe({"F.a.0.forward", Part::kInput, "x"}), std::nullopt);
}

TEST(MsprobeNamesTest, KeywordsAreInputsWhereThereIsNoFile) {
  const MsprobeName name{"Functional.f.0.forward", Part::kKwargs, "mask.0"};
  EXPECT_EQ(MsprobeFileName(name), "Functional.f.0.forward.kwargs.mask.0");
  EXPECT_EQ(KeyOfMsprobeLeaf("Functional.f.0.forward.input.mask.0"),
            KeyOfMsprobe(name));
  const MsprobeName gradient{"Module.a.B.parameters_grad.0", Part::kWhole,
                             "weight"};
  EXPECT_EQ(MsprobeFileName(gradient), "Module.a.B.parameters_grad.0.weight");
  EXPECT_EQ(MsprobeFileName({"y.0.debug", Part::kWhole, ""}), "y.0.debug");
}

// Words that could be confused with other parts of a name.
std::string Word(std::mt19937& random) {
  constexpr const char* kWords[] = {
      "Module", "Cell",   "forward",  "backward", "parameters_grad",
      "debug",  "0",      "1",        "17",       "input",
      "kwargs", "output", "__main__", "Linear",   "a_b",
      "x",      "",       "00"};
  return kWords[random() % std::size(kWords)];
}

std::string Words(std::mt19937& random) {
  std::string out = Word(random);
  for (size_t i = random() % 4; i > 0; --i) out += "." + Word(random);
  return out;
}

TEST(MsprobeNamesTest, EveryNameThatHasAKeyComesBack) {
  std::mt19937 random(1);
  int with_key = 0;
  for (int i = 0; i < 300000; ++i) {
    const MsprobeName name{
        Words(random) + "." + Word(random) + "." + Word(random),
        static_cast<Part>(random() % 5), Words(random)};
    const auto key = KeyOfMsprobe(name);
    if (!key) continue;
    ++with_key;
    const auto again = MsprobeNameOf(*key);
    ASSERT_TRUE(again.has_value()) << MsprobeFileName(name);
    // Names of gradients may lack the count.
    if (key->io != Io::kGradWeight) {
      EXPECT_EQ(*again, name);
    }
    EXPECT_EQ(KeyOfMsprobe(*again), key) << MsprobeFileName(name);
  }
  EXPECT_GT(with_key, 1000);
}

TEST(MsprobeNamesTest, EveryKeyThatHasANameComesBack) {
  std::mt19937 random(2);
  int with_name = 0;
  for (int i = 0; i < 100000; ++i) {
    const MsprobeKey key{Words(random), static_cast<int32_t>(random() % 3),
                         static_cast<Io>(random() % kIoCount), Words(random)};
    const auto name = MsprobeNameOf(key);
    if (!name) continue;
    ++with_name;
    EXPECT_EQ(KeyOfMsprobe(*name), key) << MsprobeFileName(*name);
  }
  EXPECT_GT(with_name, 10000);
}

}  // namespace
}  // namespace msitd::names
