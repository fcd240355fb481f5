// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/atb_dump.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::msit_command {
namespace {

TEST(AtbDumpTest, DefaultsAreThoseOfMsit) {
  ask::Environment found = AtbEnvironment({});
  EXPECT_EQ(found["ATB_SAVE_TENSOR"], "1");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_IN_BEFORE_OUT_AFTER"], "1");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_TIME"], "1");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_RANGE"], "0,0");
  EXPECT_EQ(found["ATB_SAVE_CHILD"], "1");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_PART"], "2");
  EXPECT_EQ(found["ATB_DUMP_TYPE"], "tensor|model");
  EXPECT_EQ(found["ATB_AIT_LOG_LEVEL"], "1");
  EXPECT_EQ(found["ATB_OUTPUT_DIR"]->back(), '/');
  EXPECT_EQ(found["ATB_TIMESTAMP"]->size(), 15);
  EXPECT_EQ(found["ATB_TIMESTAMP"]->at(8), '_');
  for (const char* name :
       {"ATB_SAVE_TENSOR_IDS", "ATB_SAVE_TENSOR_RUNNER", "ATB_DEVICE_ID",
        "ATB_SAVE_TENSOR_STATISTICS", "ATB_DUMP_SUB_PROC_INFO_SAVE_PATH"}) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found[name], std::nullopt) << name;
  }
  EXPECT_FALSE(found.contains("ATB_DUMP_CONFIG"));
  EXPECT_FALSE(found.contains("PYTHONHASHSEED"));
}

TEST(AtbDumpTest, FlagsBecomeVariables) {
  AtbDumpOptions options;
  options.output = "/";
  options.config = "/x/y.json";
  options.ids = "2,3_1";
  options.range = "0,4";
  options.ops = "LinearOperation";
  options.device = "3";
  options.seed = "7";
  options.log_level = "fatal";
  options.types = {"tensor", "stats", "cpu_profiling", "onnx"};
  options.saves_descriptions_only = true;
  options.saves_tiling = true;
  options.links_equal_files = true;
  options.saves_children = false;
  options.time = 2;
  options.part = 0;
  ask::Environment found = AtbEnvironment(options);
  EXPECT_EQ(found["ATB_OUTPUT_DIR"], "/");
  EXPECT_EQ(found["ATB_DUMP_CONFIG"], "/x/y.json");
  EXPECT_EQ(found["ATB_SAVE_TENSOR"], "2");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_IDS"], "2,3_1");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_RANGE"], "0,4");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_RUNNER"], "linearoperation");
  EXPECT_EQ(found["ATB_DEVICE_ID"], "3");
  EXPECT_EQ(found["ATB_AIT_LOG_LEVEL"], "4");
  EXPECT_EQ(found["ATB_DUMP_TYPE"], "tensor|stats|cpu_profiling|onnx|model|op");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_STATISTICS"], "1");
  EXPECT_EQ(found["ATB_SAVE_CPU_PROFILING"], "1");
  EXPECT_EQ(found["ATB_SAVE_TILING"], "1");
  EXPECT_EQ(found["ATB_SAVE_SYMLINK"], "1");
  EXPECT_EQ(found["ATB_SAVE_CHILD"], "0");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_IN_BEFORE_OUT_AFTER"], "0");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_TIME"], "2");
  EXPECT_EQ(found["ATB_SAVE_TENSOR_PART"], "0");
  EXPECT_EQ(found["PYTHONHASHSEED"], "7");
  EXPECT_EQ(found["HCCL_DETERMINISTIC"], "true");
}

TEST(AtbDumpTest, TextsOfFlagsAreChecked) {
  for (const char* right : {"", "1", "2,3_1,4_1_0"}) {
    EXPECT_EQ(CheckIds(right), "") << right;
  }
  for (const char* wrong : {",", "1,", "1_", "_1", "a", "1 2", "1-2"}) {
    EXPECT_NE(CheckIds(wrong), "") << wrong;
  }
  for (const char* right : {"", "1", "0,0,10,12"}) {
    EXPECT_EQ(CheckRange(right), "") << right;
  }
  for (const char* wrong : {",", "1,", "a", "-1,2", "1_2"}) {
    EXPECT_NE(CheckRange(wrong), "") << wrong;
  }
  for (const char* wrong : {"", "-1", "1.5", "12345678901"}) {
    EXPECT_NE(CheckNumber(wrong), "") << wrong;
  }
}

TEST(LaunchTest, CommandsAreSplitAtBlanks) {
  EXPECT_EQ(*SplitCommand("  bash run.sh\ta=[1,2] x;y "),
            (std::vector<std::string>{"bash", "run.sh", "a=[1,2]", "x;y"}));
  for (const char* wrong : {"", "  ", "a;b", "a $x", "a |b", "a `b`", "a 'b'",
                            "a > b", "a & b", "a \xff"}) {
    EXPECT_FALSE(SplitCommand(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace msitd::msit_command
