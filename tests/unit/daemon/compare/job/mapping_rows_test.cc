// SPDX-License-Identifier: Apache-2.0
// Tests of comparisons whose pairs are defined by a mapping, which is an
// attachment of a run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/job/mapping_loader.h"
#include "protos/base/mapping_limits.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/await_comparison.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Returns a line that pairs output 0 of two ops.
std::string Line(std::string_view target, std::string_view golden) {
  return fmt::format(R"({{"target":{{"op":"{0}","io":"output","index":0}},)"
                     R"("golden":{{"op":"{1}","io":"output","index":0}},)"
                     R"("reason":"{0} is {1}"}})"
                     "\n",
                     target, golden);
}

// Returns a line that pairs all tensors of two ops.
std::string WholeOp(std::string_view target, std::string_view golden) {
  return fmt::format(R"({{"target":{{"op":"{}"}},"golden":{{"op":"{}"}}}})"
                     "\n",
                     target, golden);
}

class MappingRowsTest : public testing::EitherStoreTest {
 protected:
  void Attach(std::string_view bytes,
              std::string_view media_type = kMappingMediaType) {
    storage::AttachmentSpec spec;
    spec.run = "t";
    spec.name = "m";
    spec.media_type = media_type;
    spec.replaces = true;
    auto writer = store_.attachments().Begin(spec);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(bytes).ok());
    const auto info = (*writer)->Commit();
    ASSERT_TRUE(info.ok()) << info.status();
  }

  // Output 0 of an op, or its input if the name begins with ">". `error` is
  // added to the first element.
  struct Step {
    std::string_view op;
    float value = 0;
    float error = 0;
  };

  void RecordBoth(const std::vector<Step>& golden,
                  const std::vector<Step>& target) {
    for (const auto& [recorder, steps] :
         {std::pair(&golden_, &golden), std::pair(&target_, &target)}) {
      for (const Step& step : *steps) {
        const bool is_input = step.op[0] == '>';
        RecordedTensor tensor =
            Floats(is_input ? step.op.substr(1) : step.op,
                   {step.value + step.error, 2 * step.value + 1});
        if (is_input) tensor.io = Io::kInput;
        recorder->Record(tensor);
      }
    }
  }

  absl::StatusOr<LoadedMapping> Load(ContentHash hash = {}) {
    return LoadMapping(store_.attachments(), {"t", "m", hash},
                       [] { return absl::OkStatus(); });
  }

  v1::Matching Spec() const {
    v1::Matching out = matching_;
    out.mutable_mapping()->set_side(v1::Matching::Mapping::TARGET);
    out.mutable_mapping()->set_attachment("m");
    return out;
  }

  std::vector<v1::ComparisonRow> Rows() {
    plan_.matching = *MatchRules::Create(Spec());
    auto loaded = Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return {};
    plan_.matching.UseMapping(loaded->mapping);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    comparison_ = observer.comparison;
    return observer.rows;
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  v1::Comparison comparison_;
};

MSITD_ON_BOTH_STORES(MappingRowsTest);

// Returns a line that pairs output 0 of two ops through views.
std::string Viewed(std::string_view target, std::string_view golden,
                   std::string_view target_view,
                   std::string_view golden_view = "") {
  return fmt::format(R"({{"target":{{"op":"{}","io":"output","index":0}},)"
                     R"("golden":{{"op":"{}","io":"output","index":0}},)"
                     R"("target_view":"{}","golden_view":"{}"}})"
                     "\n",
                     target, golden, target_view, golden_view);
}

TEST_P(MappingRowsTest, PartsOfATargetArePairedWithSeveralGoldenTensors) {
  golden_.Record(Floats("q", {1, 2}));
  golden_.Record(Floats("k", {3, 4}));
  golden_.Record(Floats("v", {5, 6}));
  target_.Record(Floats("qkv", {1, 2, 3, 4.5F, 5, 6}));
  Attach(Viewed("qkv", "q", "split(0,1:1:1,0)") +
         Viewed("qkv", "k", "split(0,1:1:1,1)") +
         Viewed("qkv", "v", "split(0,1:1:1,2)"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].op(), "q");
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(rows[1].target().view(), "split(0,1:1:1,1)");
  EXPECT_EQ(rows[2].verdict(), v1::PASS) << rows[2].reason();
  EXPECT_EQ(comparison_.idle_rules_size(), 0);
}

TEST_P(MappingRowsTest, PartsOfAGoldenTensorArePairedWithSeveralTargets) {
  golden_.Record(Floats("qkv", {1, 2, 3, 4}));
  target_.Record(Floats("q", {1, 2}));
  target_.Record(Floats("k", {3, 9}));
  Attach(Viewed("q", "qkv", "", "slice(0,0:2)") +
         Viewed("k", "qkv", "", "slice(0,2:4)"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  std::map<std::string, v1::Verdict> verdicts;
  for (const v1::ComparisonRow& row : rows) {
    verdicts[row.golden().view()] = row.verdict();
    if (row.golden().view().empty()) {
      EXPECT_EQ(row.reason(), "in run g: compared in q, k");
    }
  }
  EXPECT_EQ(verdicts["slice(0,0:2)"], v1::PASS);
  EXPECT_EQ(verdicts["slice(0,2:4)"], v1::FAIL);
  EXPECT_EQ(verdicts[""], v1::SKIPPED);
}

TEST_P(MappingRowsTest, AViewMayReadFurtherTensors) {
  golden_.Record(Floats("q", {1, 2}));
  golden_.Record(Floats("k", {3, 4}));
  target_.Record(Floats("qk", {1, 2, 3, 4}));
  Attach(Viewed("qk", "q", "", "concat(0,k)"));
  std::map<std::string, v1::ComparisonRow> by_view;
  for (const v1::ComparisonRow& row : Rows()) {
    by_view[row.golden().view() + row.op()] = row;
  }
  EXPECT_EQ(by_view["concat(0,k)q"].verdict(), v1::PASS)
      << by_view["concat(0,k)q"].reason();
  EXPECT_THAT(by_view["k"].reason(), HasSubstr("compared in qk"));
  EXPECT_EQ(by_view["k"].verdict(), v1::SKIPPED);
}

TEST_P(MappingRowsTest, InvalidViewsOfLinesAreRefused) {
  const auto error = [this](const std::string& lines) {
    Attach(lines);
    return std::string(Message(Load().status()));
  };
  EXPECT_THAT(error(Viewed("a", "b", "twist(0)")),
              HasSubstr("line 1: target_view: at 1 of"));
  EXPECT_THAT(error(Viewed("a", "b", "flatten") + Line("a", "c")),
              HasSubstr("line 2: line 1 has the same target; both lines"));
  EXPECT_THAT(error(R"({"target":{"op":"a"},"golden":{"op":"b"},)"
                    R"("golden_view":"flatten"})"),
              HasSubstr("a view needs target and golden with io and index"));
}

TEST_P(MappingRowsTest, RowsHaveWhatTheMappingPairsAndWhy) {
  golden_.Record(Floats("conv", {1, 2}));
  golden_.Record(Floats("relu", {3, 4}));
  golden_.Record(Floats("same", {5}));
  target_.Record(Floats("Conv_0", {1, 2}));
  target_.Record(Floats("Conv_1", {1, 9}));
  target_.Record(Floats("same", {5}));
  Attach(Line("Conv_0", "conv") + Line("Conv_1", "relu") + Line("x", "y"));
  auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
  EXPECT_EQ(rows[0].op(), "conv");
  EXPECT_THAT(rows[0].target().name(), HasSubstr("Conv_0"));
  EXPECT_EQ(rows[0].pairing(), "Conv_0 is conv");
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(rows[1].pairing(), "Conv_1 is relu");
  for (const size_t i : {2, 3}) {
    EXPECT_EQ(rows[i].verdict(), v1::UNMATCHED);
    EXPECT_THAT(rows[i].reason(), HasSubstr("not in the mapping"));
    EXPECT_EQ(rows[i].pairing(), "");
  }
  EXPECT_THAT(comparison_.idle_rules(),
              ElementsAre("--mapping: 1 of 3 pairs, line 3"));

  matching_.mutable_mapping()->set_pair_others(true);
  rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[2].verdict(), v1::PASS);
  EXPECT_EQ(rows[2].pairing(), "");
}

// A layout of all tensors is a guess for those that the mapping leaves out.
TEST_P(MappingRowsTest, RanksNeedNotAgreeOnAPlainTensorWithoutCounterpart) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  v1::Layout& layout = *matching_.add_target_layouts();
  layout.set_op_pattern("*");
  layout.set_kind(v1::Layout::REPLICATED);
  layout.set_unless_placed(true);
  matching_.mutable_mapping()->set_pair_others(true);
  golden_.Record(Floats("same", {1}));
  for (const int rank : {0, 1}) {
    RecordedTensor same = Floats("same", {1});
    same.rank = rank;
    target_.Record(same);
    for (const std::string op : {"gone", "placed"}) {
      RecordedTensor tensor = Floats(op, {1 + static_cast<float>(rank)});
      tensor.rank = rank;
      if (op == "placed") tensor.placement = "0+2/1:R";
      target_.Record(tensor);
    }
  }
  const auto alone = [](std::string_view op) {
    return fmt::format(R"({{"target":{{"op":"{}","io":"output","index":0}},)"
                       R"("reason":"part of the next op"}})"
                       "\n",
                       op);
  };
  Attach(alone("gone") + alone("placed"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].verdict(), v1::SKIPPED);
  EXPECT_THAT(rows[1].reason(), HasSubstr("part of the next op; target "));
  EXPECT_THAT(rows[1].reason(), HasSubstr("other bytes than rank 0"));
  EXPECT_EQ(rows[2].verdict(), v1::FAIL) << rows[2].reason();
}

TEST_P(MappingRowsTest, GoldenTensorHasARowForEachOfItsTargets) {
  golden_.Record(Floats("a", {1, 2}));
  target_.Record(Floats("a.0", {1, 2}));
  target_.Record(Floats("a.1", {1, 3}));
  Attach(Line("a.0", "a") + Line("a.1", "a"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(rows[1].op(), "a");
  EXPECT_THAT(comparison_.idle_rules(), SizeIs(0));
}

TEST_P(MappingRowsTest, EveryTargetOfAGoldenTensorHasItsOwnOrigin) {
  RecordBoth(
      {{">g", 1}, {"g", 2}, {">h", 2}, {"h", 3}},
      {{">T", 1}, {"T", 2, 1}, {">U", 1}, {"U", 2}, {">V", 2}, {"V", 3}});
  Attach(WholeOp("T", "g") + WholeOp("U", "g") + WholeOp("V", "h"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(6));
  EXPECT_EQ(rows[2].verdict(), v1::FAIL);
  EXPECT_EQ(rows[2].origin(), v1::CREATED);
  EXPECT_EQ(comparison_.fail_count(), 1);
  EXPECT_EQ(comparison_.first_divergence().row(), 2);
  EXPECT_EQ(comparison_.first_origin().row(), 2);
  EXPECT_THAT(comparison_.first_origin().target().name(), HasSubstr("/T/"));
  ASSERT_EQ(comparison_.makers_size(), 1);
  EXPECT_EQ(comparison_.makers(0).op(), "g");
}

TEST_P(MappingRowsTest, WhatOneTargetWasGivenDoesNotExcuseTheOther) {
  RecordBoth({{">f", 0}, {"f", 1}, {">g", 1}, {"g", 2}}, {{">F", 0},
                                                          {"F", 1},
                                                          {">T", 1, 1},
                                                          {"T", 2, 1},
                                                          {">U", 1},
                                                          {"U", 2, 0.5}});
  Attach(WholeOp("F", "f") + WholeOp("T", "g") + WholeOp("U", "g"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(6));
  EXPECT_EQ(rows[2].origin(), v1::CREATED);
  EXPECT_EQ(rows[4].origin(), v1::PASSED_ON);
  EXPECT_EQ(rows[5].origin(), v1::CREATED);
}

TEST_P(MappingRowsTest, TargetsWithoutInputsAreMadeOfThoseOfTheOthers) {
  RecordBoth({{">f", 0}, {"f", 1}, {">g", 1}, {"g", 2}},
             {{">F", 0}, {"F", 1}, {">T", 1, 1}, {"T", 2, 1}, {"Cast", 2, 2}});
  Attach(WholeOp("F", "f") + WholeOp("T", "g") + WholeOp("Cast", "g"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(5));
  EXPECT_EQ(rows[2].origin(), v1::CREATED);
  EXPECT_EQ(rows[3].origin(), v1::PASSED_ON);
  EXPECT_EQ(rows[4].origin(), v1::PASSED_ON);
}

TEST_P(MappingRowsTest, FilterByOpIsForGoldenNames) {
  golden_.Record(Floats("a", {1}));
  golden_.Record(Floats("b", {1}));
  target_.Record(Floats("A", {1}));
  target_.Record(Floats("B", {1}));
  Attach(Line("A", "a") + Line("B", "b"));
  plan_.selector.op_patterns = {"b"};
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].op(), "b");
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
}

TEST_P(MappingRowsTest, FuzzyPairsSayWhatIsAlike) {
  golden_.Record(Floats("layer.0", {1}));
  target_.Record(Floats("module.Layer/0", {1}));
  Attach(Line("x", "y"));
  matching_.mutable_mapping()->set_pair_others(true);
  matching_.set_fuzzy(true);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].pairing(),
            "the same op, but for wrappers, case and separators");
}

TEST_P(MappingRowsTest, AttachmentsThatAreNoMappingAreRefused) {
  EXPECT_TRUE(HasReason(Load().status(), ErrorReason::kAttachmentNotFound));
  Attach(Line("a", "b"), "text/plain");
  EXPECT_TRUE(absl::IsInvalidArgument(Load().status()));
  EXPECT_THAT(Message(Load().status()), HasSubstr("text/plain"));
  Attach(Line("a", "b") + "{");
  EXPECT_TRUE(HasReason(Load().status(), ErrorReason::kFieldInvalid));
  EXPECT_THAT(Message(Load().status()),
              HasSubstr("attachment \"m\" of run t: line 2: "));
}

TEST_P(MappingRowsTest, OtherBytesAreRefused) {
  Attach(Line("a", "b"));
  const ContentHash hash = Load()->hash;
  EXPECT_TRUE(Load(hash).ok());
  Attach(Line("a", "c"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(hash).status()));
  EXPECT_THAT(Message(Load(hash).status()), HasSubstr("other bytes"));
}

TEST_P(MappingRowsTest, MappingThatWasReplacedBeforeTheRunFailsIt) {
  golden_.Record(Floats("a", {1}));
  target_.Record(Floats("A", {1}));
  Attach(Line("A", "a"));
  plan_.matching = *MatchRules::Create(Spec());
  plan_.mapping = {"t", "m", Load()->hash};
  const std::vector<std::string> runs = {"g", "t"};
  v1::Comparison comparison;
  const auto id = store_.comparisons().CreateComparison(
      comparison.SerializeAsString(), runs);
  ASSERT_TRUE(id.ok()) << id.status();
  ComparisonJob job(store_.readers(), store_.comparisons(),
                    store_.attachments(), *id, comparison, plan_);
  Attach(Line("A", "b"));
  EXPECT_TRUE(job.Run());
  comparison = job.published().View().comparison;
  EXPECT_EQ(comparison.state(), v1::Comparison::FAILED);
  EXPECT_EQ(comparison.error_code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(comparison.error(), HasSubstr("other bytes"));
}

TEST_P(MappingRowsTest, MappingThatIsGoneBeforeTheRunFailsIt) {
  golden_.Record(Floats("a", {1}));
  target_.Record(Floats("A", {1}));
  Attach(Line("A", "a"));
  plan_.matching = *MatchRules::Create(Spec());
  plan_.mapping = {"t", "m", Load()->hash};
  v1::Comparison comparison;
  const auto id = store_.comparisons().CreateComparison(
      comparison.SerializeAsString(), std::vector<std::string>{"g", "t"});
  ASSERT_TRUE(id.ok()) << id.status();
  ComparisonJob job(store_.readers(), store_.comparisons(),
                    store_.attachments(), *id, comparison, plan_);
  ASSERT_TRUE(store_.attachments().DeleteAttachment("t", "m").ok());
  EXPECT_TRUE(job.Run());
  comparison = job.published().View().comparison;
  EXPECT_EQ(comparison.state(), v1::Comparison::FAILED);
  EXPECT_EQ(comparison.error_code(),
            static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(comparison.error(), HasSubstr("matching.mapping"));
}

TEST_P(MappingRowsTest, ComparisonKeepsTheHashOfItsMapping) {
  golden_.Record(Floats("a", {1}));
  target_.Record(Floats("A", {1}));
  auto jobs = ComparisonJobs::Create(store_.readers(), store_.comparisons(),
                                     store_.attachments(), {});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  plan_.matching = *MatchRules::Create(Spec());
  plan_.mapping = {"t", "m"};
  v1::Comparison request;
  *request.mutable_matching() = Spec();
  EXPECT_TRUE(absl::IsNotFound((*jobs)->Start(request, plan_).status()));

  Attach(Line("A", "a"));
  const auto started = (*jobs)->Start(request, plan_);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->matching().mapping().hash(), HashText(Load()->hash));
  const uint64_t id = *ParseComparisonName(started->name());
  const v1::Comparison ended = AwaitEnd(**jobs, id);
  EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
  EXPECT_EQ(ended.pass_count(), 1);
}

}  // namespace
}  // namespace msitd::compare
