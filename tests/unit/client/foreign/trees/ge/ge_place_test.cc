// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/ge_place.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "client/foreign/trees/tree_folder.h"

namespace msitd::trees {
namespace {

// Returns "rank/world_size time device model/model_id token".
std::string PlaceOf(const std::string& path) {
  const GePlace place = GePlaceOf(SplitPath(path));
  const auto text = [](const std::string& value) {
    return value.empty() ? std::string("-") : value;
  };
  return fmt::format("{}/{} {} {} {}/{} {}", place.rank, place.world_size,
                     text(place.time), text(place.device), text(place.model),
                     text(place.model_id), place.token);
}

TEST(GePlaceTest, FoldersSayRankDeviceGraphAndToken) {
  const struct {
    const char* path;
    const char* place;
  } kCases[] = {
      {"d/worldsize8_global_rank3/20250901120005/1/graph_1_0/2/7",
       "3/8 20250901120005 npu:1 graph_1_0/2 7"},
      {"d/dump_20250901/20250901120005/1/graph_1/2/7",
       "0/0 20250901120005 npu:1 graph_1/2 7"},
      {"20250901120005/0/Graph/1/0", "0/0 20250901120005 npu:0 Graph/1 0"},
      // Paths without a folder for the token, for the graph, or for the device.
      {"20250901120005/0/graph_1/2", "0/0 20250901120005 npu:0 graph_1/2 0"},
      {"20250901120005/0/5", "0/0 20250901120005 npu:0 -/- 5"},
      {"20250901120005/0", "0/0 20250901120005 npu:0 -/- 0"},
      {"20250901120005", "0/0 20250901120005 - -/- 0"},
      // A token that has the form of a time.
      {"20250901120005/0/graph_1/2/20250901120005",
       "0/0 20250901120005 npu:0 graph_1/2 20250901120005"},
      // The time of an enclosing folder.
      {"20240101000000/x/worldsize2_global_rank1/20250901120005/0/g/1/4",
       "1/2 20250901120005 npu:0 g/1 4"},
      {"20240101000000/x/graph_1/2/7", "0/0 - - graph_1/2 7"},
      // Paths without a time.
      {"worldsize8_global_rank3/graph_1/2/7", "3/8 - - graph_1/2 7"},
      {"1/graph_1/2/7", "0/0 - npu:1 graph_1/2 7"},
      {"graph_1/7", "0/0 - - graph_1/- 7"},
      {"7", "0/0 - - -/- 7"},
      {"x/y", "0/0 - - -/- 0"},
      {"", "0/0 - - -/- 0"},
  };
  for (const auto& [path, place] : kCases) EXPECT_EQ(PlaceOf(path), place);
}

}  // namespace
}  // namespace msitd::trees
