// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/npz_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/unit/client/foreign/formats/zip_bytes.h"

namespace msitd::formats {
namespace {

using ::testing::ElementsAre;

std::string Doubles(const std::string& shape,
                    const std::vector<double>& values) {
  return NpyOf(
      "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }\n",
      BytesOf(values));
}

// Returns "name io:index shape bytes" for each tensor. Numbers are shown as the
// bytes of doubles.
std::vector<std::string> Describe(const std::string& bytes) {
  std::vector<std::string> out;
  const auto file = OpenText(bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return out;
  while (const ForeignTensor* tensor = (*file)->Next()) {
    const auto data = ReadAll(**file, 16);
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) continue;
    std::vector<double> values(data->size() / sizeof(double));
    std::copy(data->begin(), data->end(),
              reinterpret_cast<char*>(values.data()));
    out.push_back(fmt::format(
        "{} {}:{} [{}] {}", tensor->name, IoName(tensor->io), tensor->index,
        fmt::join(tensor->shape, ","), fmt::join(values, " ")));
  }
  return out;
}

TEST(NpzFileTest, MembersAreTensors) {
  EXPECT_THAT(
      Describe(ZipOf({{"a.npy", Doubles("(2,)", {1, 2})},
                      {"inputs.npy", Doubles("(1, 2)", {3, 4})}})),
      ElementsAre("a unspecified: [2] 1 2", "inputs unspecified: [1,2] 3 4"));
}

TEST(NpzFileTest, RowsOfSmallestAndLargestElementsAreTensors) {
  EXPECT_THAT(
      Describe(ZipOf({{"inputs.npy", Doubles("(2, 2)", {1, 2, 3, 4})},
                      {"outputs.npy", Doubles("(1, 2)", {5, 6})}})),
      ElementsAre(" input:0 [2] 1 2", " input:1 [2] 3 4", " output:0 [2] 5 6"));
  EXPECT_THAT(Describe(ZipOf({{"inputs.npy", Doubles("(0,)", {})},
                              {"outputs.npy", Doubles("(1, 2)", {5, 6})}})),
              ElementsAre(" output:0 [2] 5 6"));
}

TEST(NpzFileTest, OtherArraysOfTheseNamesAreWhole) {
  EXPECT_THAT(Describe(ZipOf({{"inputs.npy", Doubles("(2, 1)", {1, 2})},
                              {"outputs.npy", Doubles("(1, 2)", {5, 6})}})),
              ElementsAre("inputs unspecified: [2,1] 1 2",
                          "outputs unspecified: [1,2] 5 6"));
  EXPECT_THAT(Describe(ZipOf({{"inputs.npy", Doubles("(1, 2)", {5, 6})}})),
              ElementsAre("inputs unspecified: [1,2] 5 6"));
}

}  // namespace
}  // namespace msitd::formats
