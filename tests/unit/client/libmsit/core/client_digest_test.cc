// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "protos/capture/capture_policy.h"
#include "protos/compute/digest.h"
#include "protos/compute/number/element.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"
#include "tests/unit/protos/compute/element_patterns.h"

// Tests of summaries and hashes that the client computes instead of the daemon.
namespace msitd::libmsit {
namespace {

using compute::MakeElements;
using compute::Pattern;
using ::testing::Each;

class ClientDigestTest : public ClientTest {
 protected:
  ClientDigestTest() {
    options_.buffer_bytes = 4 * kSlotBytes;
    SetLevel(capture::Level::kSummary);
  }

  void SetLevel(capture::Level level) {
    capture::Rule rule;
    rule.level = level;
    capture::Policies policies;
    ASSERT_TRUE(capture::Add({1, 0, {rule}}, policies));
    daemon_.SetPolicy(capture::Encode(policies));
  }

  Status RecordTensor(DType dtype, const std::vector<int64_t>& dims,
                      const std::byte* data,
                      const std::vector<int64_t>& byte_strides = {}) {
    TensorView tensor;
    tensor.op = "op";
    tensor.io = Io::kOutput;
    tensor.dtype = dtype;
    tensor.dims = dims;
    tensor.byte_strides = byte_strides;
    tensor.data = data;
    return client_->Record(tensor);
  }

  // Returns the records that have arrived since the last call.
  std::vector<Arrived> Take() {
    EXPECT_TRUE(client_->Flush(kLong).ok());
    std::vector<Arrived> all = Arrivals();
    std::vector<Arrived> out(all.begin() + taken_, all.end());
    taken_ = all.size();
    return out;
  }

  size_t taken_ = 0;
};

// Expects the digests that the daemon would compute from the bytes.
void ExpectDigests(const std::vector<Arrived>& parts,
                   std::span<const std::byte> bytes) {
  size_t at = 0;
  for (const Arrived& part : parts) {
    EXPECT_EQ(part.kept, chunk::Kept::kNothing);
    EXPECT_EQ(part.part_offset, at);
    const auto own = bytes.subspan(at, part.part_bytes);
    at += own.size();
    if (!part.digest.has_value()) {
      EXPECT_LE(own.size(), chunk::kDigestSpan);
      EXPECT_TRUE(std::ranges::equal(part.bytes, own));
      continue;
    }
    EXPECT_TRUE(
        HasEqualBits(*part.digest, compute::DigestPart(own, part.dtype)))
        << DTypeName(part.dtype) << " " << own.size();
    EXPECT_TRUE(part.bytes.empty() || std::ranges::equal(part.bytes, own));
  }
  EXPECT_EQ(at, bytes.size());
}

TEST_F(ClientDigestTest, HasTheBitsOfTheDaemonForEveryDTypeAndLength) {
  ASSERT_TRUE(Open().ok());
  for (int number = 1; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const DType component = compute::ComponentOf(dtype);
    const size_t components = IsComplex(dtype) ? 2 : 1;
    for (const size_t count : {0, 1, 8, 64, 127, 129, 5000}) {
      const auto bytes = MakeElements(component, Pattern::kMixed,
                                      count * components, count + number);
      ASSERT_TRUE(
          RecordTensor(dtype, {static_cast<int64_t>(count)}, bytes.data())
              .ok());
      ExpectDigests(Take(), bytes);
    }
  }
}

TEST_F(ClientDigestTest, HasTheBitsOfTheDaemonAroundThePartBorder) {
  ASSERT_TRUE(Open().ok());
  for (const DType dtype :
       {DType::kUint8, DType::kBfloat16, DType::kComplex128}) {
    const auto element = static_cast<int64_t>(ElementBytes(dtype));
    for (const int64_t rest : {-element, int64_t{0}, element, 40 * element}) {
      for (const int64_t parts : {1, 2}) {
        const auto size = static_cast<size_t>(
            parts * static_cast<int64_t>(kPartBytes) + rest);
        const auto bytes =
            MakeElements(DType::kUint8, Pattern::kAnyBits, size, size);
        ASSERT_TRUE(RecordTensor(dtype, {static_cast<int64_t>(size) / element},
                                 bytes.data())
                        .ok());
        ExpectDigests(Take(), bytes);
      }
    }
  }
}

TEST_F(ClientDigestTest, HasTheBitsOfTheDaemonForEveryStride) {
  ASSERT_TRUE(Open().ok());
  for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat32,
                            DType::kFloat64, DType::kComplex128}) {
    const auto element = static_cast<int64_t>(ElementBytes(dtype));
    // More than one part for the larger dtypes.
    constexpr int64_t kRows = 517;
    constexpr int64_t kColumns = 1031;
    const auto memory = MakeElements(DType::kUint8, Pattern::kAnyBits,
                                     kRows * kColumns * element, 3);
    struct Layout {
      std::vector<int64_t> dims;
      std::vector<int64_t> strides;  // In elements.
      int64_t first;
    };
    const Layout layouts[] = {
        {{kColumns, kRows}, {1, kColumns}, 0},      // transposed
        {{kRows, kColumns / 2}, {kColumns, 2}, 1},  // every other
        {{kRows, kColumns}, {-kColumns, 1}, (kRows - 1) * kColumns},
        {{3, kColumns}, {0, 1}, 5},  // expanded
        {{kRows, 1, 7}, {kColumns, 99, 3}, 2},
    };
    for (const Layout& layout : layouts) {
      std::vector<int64_t> byte_strides;
      for (const int64_t stride : layout.strides) {
        byte_strides.push_back(stride * element);
      }
      const std::byte* data = memory.data() + layout.first * element;
      std::vector<std::byte> bytes;
      const auto walk = [&](auto self, size_t dim, int64_t at) -> void {
        if (dim == layout.dims.size()) {
          bytes.insert(bytes.end(), data + at, data + at + element);
          return;
        }
        for (int64_t i = 0; i < layout.dims[dim]; ++i) {
          self(self, dim + 1, at + i * byte_strides[dim]);
        }
      };
      walk(walk, 0, 0);
      ASSERT_TRUE(RecordTensor(dtype, layout.dims, data, byte_strides).ok());
      ExpectDigests(Take(), bytes);
    }
  }
}

TEST_F(ClientDigestTest, SendsTheBytesOfOneInSoMany) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 130; ++i) ASSERT_TRUE(Record("op", 1000, i).ok());
  const std::vector<Arrived> arrived = Take();
  ASSERT_EQ(arrived.size(), 130u);
  for (size_t i = 0; i < arrived.size(); ++i) {
    EXPECT_TRUE(arrived[i].digest.has_value()) << i;
    EXPECT_EQ(arrived[i].bytes.size(), i % 64 == 0 ? 1000u : 0u) << i;
  }
  EXPECT_EQ(client_->counters().acknowledged_bytes, 130'000u);
}

// A part and its digest do not fit into one chunk.
TEST_F(ClientDigestTest, WholePartsAreNotSentWithTheirDigest) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("large", 2 * kPartBytes).ok());
  ASSERT_TRUE(Record("small", 1000).ok());
  const std::vector<Arrived> arrived = Take();
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_TRUE(arrived[0].bytes.empty());
  EXPECT_TRUE(arrived[1].bytes.empty());
  EXPECT_EQ(arrived[2].bytes.size(), 1000u);
}

TEST_F(ClientDigestTest, AnOlderDaemonGetsTheBytes) {
  daemon_.SetChunkVersion(chunk::kStatisticsVersion);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 1000).ok());
  const std::vector<Arrived> arrived = Take();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].digest, std::nullopt);
  EXPECT_EQ(arrived[0].bytes.size(), 1000u);
  EXPECT_EQ(arrived[0].chunk_version, chunk::kPlainVersion);
}

TEST_F(ClientDigestTest, ADaemonThatDoesNotSayGetsTheBytes) {
  daemon_.SetChunkVersion(0);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 1000).ok());
  EXPECT_EQ(Take().at(0).bytes.size(), 1000u);
}

TEST_F(ClientDigestTest, ADaemonThatComesBackOlderGetsTheBytes) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 1000).ok());
  EXPECT_TRUE(Take().at(0).digest.has_value());
  daemon_.SetChunkVersion(chunk::kStatisticsVersion);
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  // Flush returns after the new stream has accepted the value.
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_EQ(Take().size(), 1u);
  ASSERT_TRUE(Record("op", 1000).ok());
  EXPECT_EQ(Take().at(0).digest, std::nullopt);
}

TEST_F(ClientDigestTest, UntilADaemonHasSaidWhatItTakesItGetsTheBytes) {
  daemon_.RefuseOpening(StreamEnd::kLost, "not yet");
  options_.open_timeout = microseconds(0);
  options_.overflow = OverflowMode::kDegrade;
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Record("op", kPartBytes).ok());
  ASSERT_TRUE(Record("degraded", 1000).ok());
  daemon_.AcceptOpening();
  EXPECT_THAT(Take(), Each(testing::Field(&Arrived::digest,
                                          testing::Eq(std::nullopt))));
}

// The client remembers summaries by the hash of the bytes.
TEST_F(ClientDigestTest, AreThoseOfBytesThatComeAgainOrChange) {
  ASSERT_TRUE(Open().ok());
  constexpr size_t kSide = 256;
  std::vector<std::byte> data =
      MakeElements(DType::kFloat32, Pattern::kMixed, kSide * kSide, 1);
  const auto expect = [&](std::span<const std::byte> bytes) {
    const std::vector<Arrived> arrived = Take();
    ASSERT_EQ(arrived.size(), 1u);
    ExpectDigests(arrived, bytes);
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        RecordTensor(DType::kFloat32, {kSide, kSide}, data.data()).ok());
    expect(data);
    ASSERT_TRUE(RecordTensor(DType::kInt32, {kSide, kSide}, data.data()).ok());
    expect(data);
    const int64_t step = sizeof(float);
    ASSERT_TRUE(RecordTensor(DType::kFloat32, {kSide, kSide}, data.data(),
                             {step, kSide * step})
                    .ok());
    std::vector<std::byte> turned(data.size());
    for (size_t row = 0; row < kSide; ++row) {
      for (size_t column = 0; column < kSide; ++column) {
        std::copy_n(data.data() + (column * kSide + row) * step, step,
                    turned.data() + (row * kSide + column) * step);
      }
    }
    expect(turned);
    data[data.size() / 2 + i] ^= std::byte{1};
  }
}

TEST_F(ClientDigestTest, OnlyTheLevelOfSummariesHasThem) {
  SetLevel(capture::Level::kFull);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 1000).ok());
  EXPECT_EQ(Take().at(0).digest, std::nullopt);
}

TEST_F(ClientDigestTest, AnAliasOfADigestHasNone) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> data(1000);
  const int64_t dims[] = {1000};
  TensorView tensor;
  tensor.op = "op";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint8;
  tensor.dims = dims;
  tensor.data = data.data();
  tensor.identity = 7;
  ASSERT_TRUE(client_->Record(tensor).ok());
  tensor.op = "view";
  ASSERT_TRUE(client_->Record(tensor).ok());
  const std::vector<Arrived> arrived = Take();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[1].alias_of, "op|0|output|");
  EXPECT_EQ(arrived[1].digest, std::nullopt);
}

}  // namespace
}  // namespace msitd::libmsit
