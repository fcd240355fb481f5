// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/file_place.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::trees {
namespace {

struct Sample {
  std::string path;
  int32_t rank;
  int64_t token;
  std::string op;
};

TEST(FilePlaceTest, RanksAndStepsAreReadFromPaths) {
  for (const Sample& sample : {
           Sample{"rank0_step3_layers.2", 0, 3, "layers.2"},
           Sample{"rank_1_step_30_layer_12", 1, 30, "layer_12"},
           Sample{"RANK2-iter=7-x", 2, 7, "x"},
           Sample{"layers.2_rank3", 3, 0, "layers.2"},
           Sample{"layers.2.rank3", 3, 0, "layers.2"},
           Sample{"rank1/token5/cpu/fc", 1, 5, "cpu/fc"},
           Sample{"a_rank1/b", 1, 0, "a/b"},
           Sample{"step2/rank3/fc.weight", 3, 2, "fc.weight"},
           Sample{"rank3", 3, 0, ""},
           Sample{"step4/rank3", 3, 4, ""},
           Sample{"iteration_9", 0, 9, ""},
           // Names that only resemble ranks and steps.
           Sample{"model.step3.conv", 0, 0, "model.step3.conv"},
           Sample{"ranker0", 0, 0, "ranker0"},
           Sample{"rank", 0, 0, "rank"},
           Sample{"crank1", 0, 0, "crank1"},
           Sample{"token_type_embeddings", 0, 0, "token_type_embeddings"},
           Sample{"rank99999999999999999999_x", 0, 0,
                  "rank99999999999999999999_x"},
           Sample{"rank1048576", 0, 0, "rank1048576"},
           Sample{"", 0, 0, ""},
       }) {
    const FilePlace place = ReadFilePlace(sample.path);
    EXPECT_EQ(place.rank, sample.rank) << sample.path;
    EXPECT_EQ(place.token, sample.token) << sample.path;
    EXPECT_EQ(place.op, sample.op) << sample.path;
  }
}

}  // namespace
}  // namespace msitd::trees
