// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/pickle.h"

#include <gtest/gtest.h>

#include "client/foreign/formats/format_limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

using std::string_literals::operator""s;

PickleUse UseOf(std::string_view module, std::string_view name) {
  if (module == "m" && name == "Dict") return PickleUse::kDict;
  return module == "m" ? PickleUse::kCalled : PickleUse::kRefused;
}

absl::StatusOr<Pickle> ReadPickle(const std::string& ops) {
  return Pickle::Read("\x80\x02" + ops + ".", UseOf);
}

TEST(PickleTest, NumbersComeAsTheyAre) {
  const auto pickle = ReadPickle(
      "(K\xffM\x01\x02J\xfe\xff\xff\xff\x8a\x02\x00\x80\x8a\x00\x88\x89"
      "G\xbf\xe0\x00\x00\x00\x00\x00\x00Nt"s);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const auto items = pickle->Items(pickle->root());
  ASSERT_EQ(items.size(), 9);
  EXPECT_EQ(items[0].bits, 255);
  EXPECT_EQ(items[1].bits, 513);
  EXPECT_EQ(items[2].bits, -2);
  EXPECT_EQ(items[3].bits, -32768);
  EXPECT_EQ(items[4].bits, 0);
  EXPECT_EQ(items[5].kind, PickleKind::kBool);
  EXPECT_EQ(items[5].bits, 1);
  EXPECT_EQ(items[6].bits, 0);
  EXPECT_EQ(Pickle::Real(items[7]), -0.5);
  EXPECT_EQ(items[8].kind, PickleKind::kNone);
}

TEST(PickleTest, ContainersKeepTheirOrder) {
  const auto pickle = ReadPickle(
      "}(\x8c\x01"
      "a](K\x01K\x02"
      "e\x8c\x01"
      "b)\x85u\x8c\x01"
      "cNs"s);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root().kind, PickleKind::kDict);
  const auto items = pickle->Items(pickle->root());
  ASSERT_EQ(items.size(), 6);
  EXPECT_EQ(pickle->Text(items[0]), "a");
  EXPECT_EQ(items[1].kind, PickleKind::kList);
  EXPECT_EQ(pickle->Items(items[1])[1].bits, 2);
  EXPECT_EQ(items[3].kind, PickleKind::kTuple);
  EXPECT_EQ(pickle->Items(items[3]).size(), 1);
  EXPECT_EQ(pickle->Text(items[4]), "c");
}

TEST(PickleTest, CallsComeWithTheirArguments) {
  const auto pickle = ReadPickle("cm\nf\nK\x07N\x86RN\x62"s);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root().kind, PickleKind::kCall);
  const auto items = pickle->Items(pickle->root());
  ASSERT_EQ(items.size(), 3);
  EXPECT_EQ(pickle->ModuleOf(items[0]), "m");
  EXPECT_EQ(pickle->NameOf(items[0]), "f");
  EXPECT_EQ(items[1].bits, 7);
}

TEST(PickleTest, ADictOfAClassIsADict) {
  // Written by Python 3, and by Python 2.
  for (const char* ops : {"cm\nDict\n)RK\x01K\x02s",
                          "cm\nDict\n](](K\x01K\x02"
                          "ee\x85R"}) {
    const auto pickle = ReadPickle(ops);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    EXPECT_EQ(pickle->root().kind, PickleKind::kDict);
    ASSERT_EQ(pickle->Items(pickle->root()).size(), 2);
    EXPECT_EQ(pickle->Items(pickle->root())[1].bits, 2);
  }
}

TEST(PickleTest, ARefusedGlobalIsNamed) {
  for (const char* ops : {"cos\nsystem\n", "\x8c\x02os\x8c\x06system\x93"}) {
    const auto pickle = ReadPickle(ops);
    EXPECT_EQ(pickle.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(Message(pickle.status()).find("os.system"),
              std::string_view::npos);
  }
}

TEST(PickleTest, ShortPicklesCannotCopyWithoutEnd) {
  // A list of a million pairs, which is converted to a dict repeatedly.
  std::string ops = "](](NNeq\x01"s;
  for (int i = 0; i < 1 << 20; ++i) ops += "h\x01";
  ops += "e\x85q\x02";
  std::string again = "(";
  for (int i = 0; i < 1000; ++i) again += "cm\nDict\nh\x02R";
  const auto pickle = ReadPickle(ops + again + "t\x86");
  EXPECT_EQ(pickle.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PickleTest, EveryCutIsRefused) {
  const std::string whole =
      "\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01"
      "a\x94](K\x01\x8a\x02\x00\x80"
      "e\x8c\x01"
      "bcm\nf\nN\x85Ru."s;
  ASSERT_TRUE(Pickle::Read(whole, UseOf).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(Pickle::Read(whole.substr(0, length), UseOf).ok()) << length;
  }
}

}  // namespace
}  // namespace msitd::formats
