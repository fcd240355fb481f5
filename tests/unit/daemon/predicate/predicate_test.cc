// SPDX-License-Identifier: Apache-2.0
#include "daemon/predicate/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "protos/status/status.h"

namespace msitd::predicate {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::string_view, 4> kNames = {"cosine", "max_abs", "nl2",
                                                    "inf_mismatch_count"};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Values = std::array<std::optional<double>, 4>;

Predicate Parsed(std::string_view text) {
  auto predicate = Predicate::Parse(text, kNames);
  EXPECT_TRUE(predicate.ok()) << text << ": " << predicate.status();
  return *std::move(predicate);
}

bool Holds(std::string_view text, const Values& values) {
  return Parsed(text).Holds(values);
}

std::string ErrorOf(std::string_view text) {
  const auto predicate = Predicate::Parse(text, kNames);
  EXPECT_FALSE(predicate.ok()) << text;
  if (predicate.ok()) return "";
  EXPECT_EQ(predicate.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Reason(predicate.status()), "PREDICATE_INVALID");
  return std::string(Message(predicate.status()));
}

TEST(PredicateTest, EveryOperatorComparesAsInC) {
  const Values at_two = {2.0, {}, {}, {}};
  const std::pair<std::string_view, bool> cases[] = {
      {"cosine < 3", true},   {"cosine < 2", false},  {"cosine <= 2", true},
      {"cosine <= 1", false}, {"cosine > 1", true},   {"cosine > 2", false},
      {"cosine >= 2", true},  {"cosine >= 3", false}, {"cosine == 2", true},
      {"cosine == 1", false}, {"cosine != 1", true},  {"cosine != 2", false},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Holds(text, at_two), expected) << text;
  }
}

TEST(PredicateTest, LargerValuesMayRefuteIt) {
  // max_abs is at least 2, and inf_mismatch_count is at least 1.
  const Values at_least = {std::nullopt, 2.0, std::nullopt, 1.0};
  const std::pair<std::string_view, bool> cases[] = {
      {"max_abs <= 1", true},
      {"max_abs <= 2", false},
      {"max_abs < 2", true},
      {"1 >= max_abs", true},
      {"inf_mismatch_count == 0", true},
      {"inf_mismatch_count == 5", false},
      {"inf_mismatch_count != 0", false},
      {"not inf_mismatch_count != 0", true},
      {"max_abs >= 1", false},
      {"max_abs > 3", false},
      {"not max_abs > 1", true},
      {"not max_abs > 3", false},
      {"nl2 <= 0", false},
      {"max_abs <= nl2", false},
      {"nl2 <= 1 and max_abs <= 1", true},
      {"nl2 <= 1 or max_abs <= 1", false},
      {"max_abs <= 1 or inf_mismatch_count == 0", true},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Parsed(text).CannotHold(at_least), expected) << text;
  }
}

TEST(PredicateTest, NumbersHaveSignsFractionsExponentsAndInfinity) {
  const Values values = {-0.5, kInf, 1e-2, 0.0};
  EXPECT_TRUE(Holds("cosine == -.5", values));
  EXPECT_TRUE(Holds("cosine == -5e-1", values));
  EXPECT_TRUE(Holds("cosine>-inf", values));
  EXPECT_TRUE(Holds("max_abs == inf", values));
  EXPECT_TRUE(Holds("max_abs == +inf", values));
  EXPECT_TRUE(Holds("nl2 == 1E-2", values));
  EXPECT_TRUE(Holds("nl2 == 1.e-2", values));
  EXPECT_TRUE(Holds("nl2 < +1e+3", values));
}

TEST(PredicateTest, NumbersMayHaveUnitsOf1024) {
  const Values values = {4096, 1.5 * 1024 * 1024, 1e-2, 0.0};
  EXPECT_TRUE(Holds("cosine == 4KiB", values));
  EXPECT_TRUE(Holds("max_abs == 1.5MiB", values));
  EXPECT_TRUE(Holds("max_abs < 1GiB and max_abs < 1e0TiB", values));
  for (const char* text : {"cosine < 4K", "cosine < 4KiBs", "cosine < KiB",
                           "cosine < 4 KiB", "cosine < 4KiBKiB"}) {
    EXPECT_FALSE(Predicate::Parse(text, kNames).ok()) << text;
  }
}

TEST(PredicateTest, NumberMayStandLeftAndNamesOnBothSides) {
  const Values values = {0.5, 3.0, 2.0, 0.0};
  EXPECT_TRUE(Holds("0.4 < cosine", values));
  EXPECT_FALSE(Holds("0.6 < cosine", values));
  EXPECT_TRUE(Holds("max_abs > nl2", values));
  EXPECT_TRUE(Holds("inf_mismatch_count == 0", values));
}

TEST(PredicateTest, NotBindsTighterThanAndAndAndTighterThanOr) {
  const Values values = {1.0, 2.0, 3.0, 4.0};
  EXPECT_TRUE(Holds("cosine == 1 or max_abs == 0 and nl2 == 0", values));
  EXPECT_FALSE(Holds("(cosine == 1 or max_abs == 0) and nl2 == 0", values));
  EXPECT_FALSE(Holds("not cosine == 1 and nl2 == 0", values));
  EXPECT_TRUE(Holds("not (cosine == 1 and nl2 == 0)", values));
  EXPECT_TRUE(Holds("not not cosine == 1", values));
  EXPECT_TRUE(Holds("not(cosine==0)and\tnl2==3\n", values));
}

TEST(PredicateTest, AbsentValueNeverPasses) {
  const Values absent = {};
  EXPECT_FALSE(Holds("cosine >= 0", absent));
  EXPECT_FALSE(Holds("cosine != 0", absent));
  EXPECT_FALSE(Holds("not cosine >= 0", absent));
  EXPECT_FALSE(Holds("not (cosine >= 0 and nl2 < 1)", absent));
  EXPECT_FALSE(Holds("not not cosine >= 0", absent));
  EXPECT_FALSE(Holds("cosine > 0 or not cosine > 0", absent));
}

TEST(PredicateTest, AbsentValueDoesNotMatterWhereTheRestDecides) {
  const Values values = {std::nullopt, 1.0, {}, {}};
  EXPECT_TRUE(Holds("cosine > 0 or max_abs == 1", values));
  EXPECT_TRUE(Holds("max_abs == 1 or cosine > 0", values));
  EXPECT_TRUE(Holds("not (cosine > 0 and max_abs == 2)", values));
  EXPECT_FALSE(Holds("cosine > 0 and max_abs == 1", values));
}

TEST(PredicateTest, IfPresentIsTrueOfWhatIsAbsent) {
  const Values values = {std::nullopt, 2.0, kNan, 1.0};
  EXPECT_TRUE(Holds("cosine >= 0.9 if present", values));
  EXPECT_TRUE(Holds("0.9 <= cosine if present", values));
  EXPECT_TRUE(Holds("max_abs <= cosine if present and max_abs == 2", values));
  EXPECT_TRUE(Holds("max_abs <= 2 if present", values));
  EXPECT_FALSE(Holds("max_abs <= 1 if present", values));
  EXPECT_FALSE(Holds("max_abs <= 1 if present or cosine > 0", values));
  EXPECT_FALSE(Holds("nl2 <= 1 if present", values));
  EXPECT_FALSE(Holds("not nl2 <= 1 if present", values));
  EXPECT_FALSE(Holds("not cosine >= 0.9 if present", values));
  EXPECT_EQ(Parsed("cosine > 0 if present and max_abs <= 1 if present")
                .FirstFailure(values),
            "max_abs = 2, needs <= 1");
}

TEST(PredicateTest, IfPresentHasBounds) {
  const Values values = {std::nullopt, 2.0, kNan, 1.0};
  const Predicate predicate =
      Parsed("cosine <= 1 if present and max_abs <= 1 if present");
  EXPECT_EQ(predicate.Bounds().size(), 2u);
  EXPECT_TRUE(predicate.CanHold(values));
  EXPECT_FALSE(Parsed("nl2 <= 1 if present").CanHold(values));
  // A metric with a lower bound may still be absent.
  EXPECT_FALSE(Parsed("max_abs <= 1 if present").CannotHold(values));
  EXPECT_TRUE(Parsed("not max_abs >= 1 if present").CannotHold(values));
}

TEST(PredicateTest, NanComparesFalseWithEveryOperatorAndUnderNot) {
  const Values values = {kNan, {}, {}, {}};
  for (const std::string_view op : {"<", "<=", ">", ">=", "==", "!="}) {
    EXPECT_FALSE(Holds(fmt::format("cosine {} 1", op), values)) << op;
    EXPECT_FALSE(Holds(fmt::format("not cosine {} 1", op), values)) << op;
  }
}

TEST(PredicateTest, FirstFailureNamesComparisonAndValue) {
  const Values values = {0.91, 3.0, 0.25, 0.0};
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"cosine >= 0.9", ""},
      {"cosine >= 0.999", "cosine = 0.91, needs >= 0.999"},
      {"0.999 <= cosine", "cosine = 0.91, needs >= 0.999"},
      {"max_abs == 3 and cosine >= 0.999 and nl2 < 0",
       "cosine = 0.91, needs >= 0.999"},
      {"nl2 <= 1e-3 or cosine >= 0.999", "nl2 = 0.25, needs <= 1e-3"},
      {"not nl2 > 1e-3", "nl2 = 0.25, needs not > 1e-3"},
      {"not (nl2 < 0 or max_abs > 2)", "max_abs = 3, needs not > 2"},
      {"not (nl2 > 0 and max_abs > 2)", "nl2 = 0.25, needs not > 0"},
      {"max_abs <= nl2", "max_abs = 3, needs <= nl2 (0.25)"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Parsed(text).FirstFailure(values), expected) << text;
  }
}

TEST(PredicateTest, FirstFailureSaysUndefinedForAnAbsentValue) {
  EXPECT_EQ(
      Parsed("max_abs < 1 and cosine > 0").FirstFailure({{{}, 0, {}, {}}}),
      "cosine = undefined, needs > 0");
}

TEST(PredicateTest, FirstFailureShowsAsManyDigitsAsTellTheSidesApart) {
  EXPECT_EQ(
      Parsed("cosine >= 0.999999").FirstFailure({{0.99999899, {}, {}, {}}}),
      "cosine = 0.99999899, needs >= 0.999999");
}

TEST(PredicateTest, ErrorsSayColumnAndWhatWasExpected) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "column 1: expected a name or a number, found the end"},
      {"cosine", "column 7: expected one of < <= > >= == !=, found the end"},
      {"cosine >=", "column 10: expected a name or a number, found the end"},
      {"cosine = 1",
       "column 8: expected one of < <= > >= == !=, found \"=\"; "
       "write =="},
      {"cosine > 1 & nl2 < 1",
       "column 12: expected \"and\", \"or\" or the end, "
       "found \"&\"; write and"},
      {"!cosine > 1",
       "column 1: expected a name or a number, found \"!\"; "
       "write not"},
      {"(cosine > 1",
       "column 12: expected \"and\", \"or\" or \")\", found the "
       "end"},
      {"cosine > 1)", "column 11: expected \"and\", \"or\" or the end"},
      {"0 < cosine < 1", "column 12: expected \"and\", \"or\" or the end"},
      {"cosine > and", "column 10: expected a name or a number, found \"and\""},
      {"cosine > 1 not nl2 > 1", "column 12: expected \"and\""},
      {"cosine > 1x", "column 10: expected a name or a number, found \"1x\""},
      {"cosine > 1.2.3", "column 10: expected a name or a number"},
      {"cosine > 0x10", "column 10: expected a name or a number"},
      {"cosine > 1e999", "column 10: \"1e999\" is out of the range"},
      {"1 < 2", "column 1: a comparison needs a name"},
      {"cosine > \"1\"", "found \"\"\""},
      {"cosine > \xff", "found \"\\xff\""},
      {std::string_view("cosine > \0", 10), "found \"\\x00\""},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(std::string(expected))) << text;
  }
}

TEST(PredicateTest, UnknownNameListsTheKnownOnes) {
  EXPECT_EQ(ErrorOf("nl2 < 1 and cosin > 1"),
            "predicate, column 13: unknown name \"cosin\"; expected one of "
            "cosine, max_abs, nl2, inf_mismatch_count");
  EXPECT_THAT(ErrorOf("nan < 1"), HasSubstr("unknown name \"nan\""));
  EXPECT_THAT(ErrorOf("__import__ < 1"), HasSubstr("unknown name"));
}

TEST(PredicateTest, LengthDepthAndNumberOfComparisonsAreBounded) {
  const auto nested = [](int depth) {
    return std::string(depth, '(') + "nl2 < 1" + std::string(depth, ')');
  };
  EXPECT_TRUE(Predicate::Parse(nested(kPredicateDepthMax), kNames).ok());
  EXPECT_THAT(ErrorOf(nested(kPredicateDepthMax + 1)), HasSubstr("nest"));

  std::string negated = "nl2 < 1";
  for (int i = 0; i <= kPredicateDepthMax; ++i) negated.insert(0, "not ");
  EXPECT_THAT(ErrorOf(negated), HasSubstr("column 129: \"not\""));

  std::string chain = "nl2<1";
  for (size_t i = 1; i < kPredicateComparisonsMax; ++i) chain += " or nl2<1";
  EXPECT_TRUE(Predicate::Parse(chain, kNames).ok());
  EXPECT_THAT(ErrorOf(chain + " or nl2<1"), HasSubstr("at most 256"));

  std::string padded = "nl2 < 1";
  padded.resize(kPredicateBytesMax, ' ');
  EXPECT_TRUE(Predicate::Parse(padded, kNames).ok());
  EXPECT_THAT(ErrorOf(padded + " "), HasSubstr("at most 4096 bytes"));
}

// Random sentences of words of the language and of bytes must either parse,
// evaluate and explain themselves consistently, or give an error with a column
// inside the text.
TEST(PredicateTest, RandomTextParsesOrNamesAColumn) {
  constexpr std::string_view kWords[] = {
      "cosine", "nl2", "max_abs", "bogus", "and", "or",   "not", "(",      ")",
      "<",      "<=",  "==",      "!=",    "=",   "1e-3", "-2",  "inf",    "1e",
      ".",      "&",   " ",       "\xc3",  "+",   "0.5",  "if",  "present"};
  const unsigned seed = 20240501;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&random](size_t n) { return random() % n; };
  int parsed_count = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string text = i % 2 == 0 ? "" : "not nl2 < 1 and ";
    const size_t words = below(9);
    for (size_t w = 0; w < words; ++w) {
      text += kWords[below(std::size(kWords))];
      if (below(4) != 0) text += ' ';
    }
    const auto predicate = Predicate::Parse(text, kNames);
    if (!predicate.ok()) {
      const std::string message = ErrorOf(text);
      const size_t column =
          std::stoul(message.substr(message.find("column") + 7));
      EXPECT_GE(column, 1u) << text;
      EXPECT_LE(column, text.size() + 1) << text;
      continue;
    }
    ++parsed_count;
    const Values values = {0.5, {}, kNan, -2.0};
    EXPECT_EQ(predicate->Holds(values),
              predicate->FirstFailure(values).empty());
  }
  EXPECT_GT(parsed_count, 50);
}

// A predicate made from a random tree evaluates to the same value as the tree.
TEST(PredicateTest, AgreesWithAReferenceOnRandomTrees) {
  std::mt19937 random(7);
  const Values values = {1.0, {}, 3.0, kNan};
  struct Made {
    std::string text;
    std::optional<bool> value;
  };
  const std::function<Made(int)> make = [&](int depth) -> Made {
    if (depth == 0 || random() % 4 == 0) {
      const size_t name = random() % 4;
      const double bound = static_cast<double>(random() % 4);
      const bool known = values[name].has_value() && !std::isnan(*values[name]);
      return {fmt::format("{} <= {}", kNames[name], bound),
              known ? std::optional(*values[name] <= bound) : std::nullopt};
    }
    const Made a = make(depth - 1);
    if (random() % 3 == 0) {
      return {"not (" + a.text + ")",
              a.value ? std::optional(!*a.value) : std::nullopt};
    }
    const Made b = make(depth - 1);
    const bool is_or = random() % 2 == 0;
    std::optional<bool> value;
    if (a.value == is_or || b.value == is_or) {
      value = is_or;
    } else if (a.value && b.value) {
      value = !is_or;
    }
    return {fmt::format("({}) {} ({})", a.text, is_or ? "or" : "and", b.text),
            value};
  };
  for (int i = 0; i < 2000; ++i) {
    const Made made = make(4);
    EXPECT_EQ(Holds(made.text, values), made.value.value_or(false))
        << made.text;
  }
}

}  // namespace
}  // namespace msitd::predicate
