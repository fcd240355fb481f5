// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TensorCommandsTest : public MsitctlTest {
 protected:
  TensorCommandsTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TensorCommandsTest() override { std::filesystem::remove_all(folder_); }

  static std::string Read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Adds a tensor "t" of `size` bytes.
  void AddBytes(size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 7 + i / 9);
    v1::Tensor& tensor = AddTensor("t");
    tensor.set_size_bytes(static_cast<int64_t>(size));
    tensor.clear_shape();
    tensor.add_shape(static_cast<int64_t>(size / 4));
    daemon_.data().bytes = bytes;
  }

  std::filesystem::path folder_;
};

TEST_F(TensorCommandsTest, ListIsATable) {
  AddTensor("t");
  EXPECT_EQ(Run({"tensor", "list", "--run", "r"}).out,
            "rank  device  token  op               call  io/index  dtype    "
            "shape  size   min  max  mean  l2_norm  nan_count\n"
            "   0  cpu:0       0  layers.0.q_proj     0  output/0  float32  "
            "[2]     8 B  -0.5    -     -        0          0\n");
}

TEST_F(TensorCommandsTest, SelectionReachesTheDaemon) {
  ASSERT_EQ(Run({"tensor",    "find",         "--run",     "r",
                 "--ranks",   "0,2-3",        "--tokens",  "0-3,10",
                 "--devices", "npu:0",        "--devices", "npu:1",
                 "--ops",     "a*,b.[0]",     "--ops",     "[c]",
                 "--io",      "output,input", "--where",   "nan_count > 0"})
                .exit_code,
            0);
  const v1::ListTensorsRequest request = daemon_.list_tensors();
  EXPECT_EQ(request.run(), "r");
  EXPECT_EQ(request.where(), "nan_count > 0");
  EXPECT_THAT(request.filter().ranks(), ElementsAre(0, 2, 3));
  EXPECT_THAT(request.filter().devices(), ElementsAre("npu:0", "npu:1"));
  EXPECT_THAT(request.filter().op_patterns(),
              ElementsAre("a*", "b.[0]", "[c]"));
  EXPECT_THAT(request.filter().ios(), ElementsAre(v1::IO_OUTPUT, v1::IO_INPUT));
  ASSERT_EQ(request.filter().tokens_size(), 2);
  EXPECT_EQ(request.filter().tokens(0).last(), 3);
  EXPECT_EQ(request.filter().tokens(1).first(), 10);
}

TEST_F(TensorCommandsTest, FoundTensorsAreInExecutionOrder) {
  // The order of the index: a container before its elements.
  struct Recorded {
    const char* name;
    int32_t rank;
    int64_t token;
    int64_t sequence;
  };
  for (const auto& [name, rank, token, sequence] :
       {Recorded{"root", 0, 1, 9}, Recorded{"root.fc", 0, 1, 7},
        Recorded{"later", 0, 2, 12}, Recorded{"first", 1, 0, 3},
        Recorded{"other", 1, 1, 8}}) {
    v1::Tensor& tensor = AddTensor(name);
    tensor.set_rank(rank);
    tensor.set_token(token);
    tensor.set_sequence(sequence);
  }
  const auto found = [this](std::vector<std::string> more) {
    std::vector<std::string> words = {"-o", "name",    "tensor", "find",
                                      "r",  "--where", "max > 1"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(std::move(words)).out;
  };
  EXPECT_EQ(found({}), "first\nroot.fc\nother\nroot\nlater\n");
  EXPECT_EQ(found({"--limit", "2"}), "first\nroot.fc\n");
  EXPECT_EQ(found({"--order", "key", "--limit", "1"}), "root\n");
  EXPECT_EQ(Run({"-o", "name", "tensor", "list", "r", "--limit", "1"}).out,
            "root\n");
}

TEST_F(TensorCommandsTest, AListThatIsCutIsPartial) {
  constexpr int kCount = 100'001;
  for (int i = 0; i < kCount; ++i) {
    v1::Tensor& tensor = daemon_.data().tensors.emplace_back();
    tensor.set_name(fmt::format("op.{}", i));
    tensor.set_sequence(i);
  }
  for (const char* limit : {"0", "250000"}) {
    const ChildResult cut = Run({"-o", "name", "tensor", "find", "r", "--where",
                                 "max > 1", "--limit", limit});
    EXPECT_EQ(cut.exit_code, 4) << limit;
    EXPECT_THAT(cut.err, HasSubstr("the first 100000 of 100001"));
  }
  const ChildResult asked = Run({"-o", "name", "tensor", "find", "r", "--where",
                                 "max > 1", "--limit", "100000"});
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
}

TEST_F(TensorCommandsTest, AnEmptySelectionIsNotEverything) {
  AddTensor("t");
  for (const char* flag : {"--ranks", "--tokens", "--ops", "--devices", "--io",
                           "--kind", "--request"}) {
    for (const char* value : {"", ",", " "}) {
      const ChildResult result = Run({"tensor", "list", "r", flag, value});
      EXPECT_EQ(result.exit_code, 2) << flag << result.out;
      EXPECT_THAT(result.err, HasSubstr(flag));
    }
  }
  EXPECT_EQ(Run({"tensor", "find", "r", "--where", ""}).exit_code, 2);
  EXPECT_EQ(Run({"compare", "rows", "c-000001", "--row", ""}).exit_code, 2);
  EXPECT_EQ(Run({"compare", "rows", "c-000001", "--verdict", ""}).exit_code, 2);
  EXPECT_EQ(Run({"compare", "run", "g", "t", "--tol", ""}).exit_code, 2);
}

TEST_F(TensorCommandsTest, StatsGroupAndNameTheirGroups) {
  AddTensor("t");
  const ChildResult result = Run({"tensor", "stats", "--run", "r", "--by",
                                  "rank", "--columns", "rank,tensors,min"});
  EXPECT_EQ(result.out,
            "rank  tensors   min\n"
            "0           1  -1.5\n");
  EXPECT_EQ(daemon_.summarize().group_by(), v1::SummarizeTensorsRequest::RANK);
}

TEST_F(TensorCommandsTest, GetPrintsAllFields) {
  AddTensor("t");
  const ChildResult result = Run({"tensor", "get", "t"});
  EXPECT_THAT(result.out, HasSubstr("\ndtype                            "
                                    "float32\n"));
  EXPECT_THAT(result.out, HasSubstr("\nsummary.nan_count                0\n"));
  EXPECT_THAT(result.out, HasSubstr("\nhas_bytes                        "
                                    "true\n"));
}

TEST_F(TensorCommandsTest, OnATerminalATableFitsAndOffItNothingIsCut) {
  AddTensor("t").set_op(std::string(300, 'x'));
  const std::vector<std::string> arguments = {
      "tensor",     "list",      "--run",
      "r",          "-o",        "table",
      "--no-color", "--columns", "rank,op,dtype,shape"};
  const std::string narrow =
      Run(arguments, {.stdout_is_terminal = true, .columns = 60}).out;
  EXPECT_THAT(narrow, HasSubstr("\u2026"));
  EXPECT_EQ(narrow.find('\n'), 60u);
  EXPECT_THAT(Run(arguments).out, HasSubstr(std::string(300, 'x')));
}

TEST_F(TensorCommandsTest, ReadWritesTheBytes) {
  AddBytes(4000);
  const auto path = folder_ / "out.bin";
  const ChildResult result = Run({"tensor", "read", "t", "--out", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Read(path), daemon_.data().bytes);
  EXPECT_EQ(Run({"tensor", "read", "t", "--out", "-"}).out,
            daemon_.data().bytes);
}

TEST_F(TensorCommandsTest, ReadGoesOnWhereAStreamBroke) {
  AddBytes(3500);
  daemon_.data().broken_stream_count = 2;
  const ChildResult result = Run({"tensor", "read", "t", "--out", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, daemon_.data().bytes);
  EXPECT_THAT(daemon_.calls(), ElementsAre("GetTensor", "ReadTensor",
                                           "ReadTensor", "ReadTensor"));
}

TEST_F(TensorCommandsTest, AnEmptyTensorIsAnEmptyFile) {
  AddBytes(0);
  const auto path = folder_ / "out.bin";
  EXPECT_EQ(Run({"tensor", "read", "t", "--out", path}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(Read(path), "");
}

TEST_F(TensorCommandsTest, ABrokenReadLeavesNoFile) {
  AddBytes(500);
  daemon_.data().tensors[0].set_size_bytes(400);
  const auto path = folder_ / "out.bin";
  const ChildResult result = Run({"tensor", "read", "t", "--out", path});
  EXPECT_EQ(result.exit_code, 77);
  EXPECT_THAT(result.err, HasSubstr("sent 500 bytes at 0"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TensorCommandsTest, NpyIsChosenByTheNameAndNotesWhatNumpyLacks) {
  AddBytes(400);
  daemon_.data().tensors[0].set_dtype(v1::D_TYPE_BFLOAT16);
  daemon_.data().tensors[0].set_shape(0, 200);
  const auto path = folder_ / "out.npy";
  const ChildResult result = Run({"tensor", "read", "t", "--out", path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "msitctl: note: .npy has no bfloat16: stored as uint16\n");
  const std::string file = Read(path);
  EXPECT_THAT(file, StartsWith("\x93NUMPY"));
  EXPECT_THAT(file, HasSubstr("'descr': '<u2'"));
  EXPECT_EQ(file.substr(128), daemon_.data().bytes);
}

TEST_F(TensorCommandsTest, SampleHasAShapeAndALengthOfItsOwn) {
  // The sample has every third of 3000 elements.
  AddBytes(4000);
  daemon_.data().tensors[0].set_shape(0, 3000);
  daemon_.data().tensors[0].set_size_bytes(12'000);
  const auto path = folder_ / "out.npy";
  const ChildResult result =
      Run({"tensor", "read", "t", "--sample", "--out", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string file = Read(path);
  EXPECT_THAT(file, HasSubstr("'shape': (1000,)"));
  EXPECT_EQ(file.substr(128), daemon_.data().bytes);
  daemon_.data().tensors[0].set_dtype(static_cast<v1::DType>(99));
  EXPECT_EQ(Run({"tensor", "read", "t", "--sample", "--out", folder_ / "x"})
                .exit_code,
            3);
}

TEST_F(TensorCommandsTest, BytesDoNotGoToATerminal) {
  AddBytes(400);
  const ChildResult result =
      Run({"tensor", "read", "t", "--out", "-"}, {.stdout_is_terminal = true});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(daemon_.calls(), IsEmpty());
}

TEST_F(TensorCommandsTest, AFileThatCannotBeWrittenIs3) {
  AddBytes(400);
  EXPECT_EQ(
      Run({"tensor", "read", "t", "--out", folder_ / "no" / "x"}).exit_code, 3);
  EXPECT_EQ(Run({"tensor", "read", "t", "--out", "/dev/full"}).exit_code, 3);
}

TEST_F(TensorCommandsTest, AFileIsOfAKnownKind) {
  AddBytes(400);
  const ChildResult result =
      Run({"tensor", "read", "t", "--out", folder_ / "x.npz"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("x.npz: the file name must end in .npy,"));
  EXPECT_EQ(Run({"tensor", "read", "t", "--out", folder_ / "x.npz", "--format",
                 "raw"})
                .exit_code,
            0);
}

TEST_F(TensorCommandsTest, TheRunOfATensorMayBeWhatIsNotThere) {
  AddRun("golden");
  const ChildResult result = Run(
      {"tensor", "get",
       "runs/goldenn/ranks/0/devices/cpu:0/tokens/0/ops/o/calls/0/output/0"});
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_EQ(result.err,
            "msitctl: NOT_FOUND (RUN_NOT_FOUND): no run "
            "\"goldenn\"; did you mean golden?\n");
}

TEST_F(TensorCommandsTest, AnEmptyListSaysSo) {
  AddRun("golden");
  const ChildResult result =
      Run({"tensor", "find", "golden", "--ops", "x", "--where", "max > 1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "msitctl: note: 0 of 12 tensors of run golden match "
            "--ops 'x' --where 'max > 1'\n");
}

TEST_F(TensorCommandsTest, ATensorThatIsNotThereIs69AndLeavesNoFile) {
  const ChildResult result =
      Run({"tensor", "read", "nope", "--out", folder_ / "x"});
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, StartsWith("msitctl: NOT_FOUND (TENSOR_NOT_FOUND)"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace msitd::msitctl
