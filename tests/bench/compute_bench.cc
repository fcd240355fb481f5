// SPDX-License-Identifier: Apache-2.0

// Throughput of the reductions in bytes per second, compared with a plain read
// of the same memory. The tensors are larger than the caches. Figures for pairs
// count the bytes of both sides.
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/compute/histogram.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/compute/digest.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::compute {
namespace {

constexpr size_t kTensorBytes = size_t{64} << 20;

// Fills float32 and float64 tensors with normally distributed values, and other
// dtypes with plain small numbers.
AlignedBuffer MakeTensor(DType dtype, uint64_t seed) {
  AlignedBuffer out(kTensorBytes);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  // Repeats one part, because generating 64 MiB of random values takes longer
  // than the measurement.
  const size_t bytes = size_t{1} << 20;
  const size_t step = ElementBytes(dtype);
  for (size_t at = 0; at < bytes; at += step) {
    const double value = normal(random);
    const auto single = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    switch (dtype) {
      case DType::kFloat64:
        std::memcpy(out.data() + at, &value, step);
        break;
      case DType::kFloat32:
        std::memcpy(out.data() + at, &bits, step);
        break;
      case DType::kBfloat16:
        bits >>= 16;
        std::memcpy(out.data() + at, &bits, step);
        break;
      case DType::kFloat16:
        bits = 0x3800 + (random() & 0x83ff);
        std::memcpy(out.data() + at, &bits, step);
        break;
      default:
        bits = random() & 0xb7;  // Finite in both 8-bit formats.
        std::memcpy(out.data() + at, &bits, step);
        break;
    }
  }
  for (size_t at = bytes; at < kTensorBytes; at += bytes) {
    std::memcpy(out.data() + at, out.data(), bytes);
  }
  return out;
}

void SetBytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  state.SetLabel(std::string(SimdTargetName()));
}

// Vectors of 16 bytes are available on every CPU, and wide enough to reach the
// bandwidth of the memory.
typedef uint64_t Vector __attribute__((vector_size(16)));

void BM_Read(benchmark::State& state) {
  const AlignedBuffer tensor = MakeTensor(DType::kFloat32, 1);
  const auto* begin = reinterpret_cast<const Vector*>(tensor.data());
  const auto* end = begin + tensor.size() / sizeof(Vector);
  for (auto _ : state) {
    Vector a = {}, b = {}, c = {}, d = {};
    for (const Vector* at = begin; at != end; at += 4) {
      a |= at[0];
      b |= at[1];
      c |= at[2];
      d |= at[3];
    }
    benchmark::DoNotOptimize(a | b | c | d);
  }
  SetBytes(state, kTensorBytes);
}
BENCHMARK(BM_Read);

void BM_Summarize(benchmark::State& state, DType dtype) {
  const AlignedBuffer tensor = MakeTensor(dtype, 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Summarize(tensor.span(), dtype));
  }
  SetBytes(state, kTensorBytes);
}
BENCHMARK_CAPTURE(BM_Summarize, float64, DType::kFloat64);
BENCHMARK_CAPTURE(BM_Summarize, float32, DType::kFloat32);
BENCHMARK_CAPTURE(BM_Summarize, bfloat16, DType::kBfloat16);
BENCHMARK_CAPTURE(BM_Summarize, float16, DType::kFloat16);
BENCHMARK_CAPTURE(BM_Summarize, float8_e4m3fn, DType::kFloat8E4m3fn);
BENCHMARK_CAPTURE(BM_Summarize, float8_e5m2, DType::kFloat8E5m2);
BENCHMARK_CAPTURE(BM_Summarize, int8, DType::kInt8);
BENCHMARK_CAPTURE(BM_Summarize, int64, DType::kInt64);

void BM_Digest(benchmark::State& state, DType dtype) {
  const AlignedBuffer tensor = MakeTensor(dtype, 1);
  for (auto _ : state) {
    for (size_t at = 0; at < kTensorBytes; at += kPartBytes) {
      benchmark::DoNotOptimize(
          DigestPart(tensor.span().subspan(at, kPartBytes), dtype));
    }
  }
  SetBytes(state, kTensorBytes);
}
BENCHMARK_CAPTURE(BM_Digest, float32, DType::kFloat32);
BENCHMARK_CAPTURE(BM_Digest, bfloat16, DType::kBfloat16);

void BM_Pair(benchmark::State& state, DType dtype, bool softmax) {
  const AlignedBuffer target = MakeTensor(dtype, 1);
  AlignedBuffer golden = MakeTensor(dtype, 2);
  if (!softmax) {
    // One NaN disables KL for the rest of the tensor.
    std::memset(golden.data(), 0xff, ElementBytes(dtype));
  }
  for (auto _ : state) {
    PairAccumulator accumulator(dtype, dtype);
    accumulator.Update(target.span(), golden.span());
    benchmark::DoNotOptimize(accumulator.Finish());
  }
  SetBytes(state, 2 * kTensorBytes);
}
BENCHMARK_CAPTURE(BM_Pair, float32, DType::kFloat32, true);
BENCHMARK_CAPTURE(BM_Pair, float32_without_kl, DType::kFloat32, false);
BENCHMARK_CAPTURE(BM_Pair, bfloat16, DType::kBfloat16, true);
BENCHMARK_CAPTURE(BM_Pair, bfloat16_without_kl, DType::kBfloat16, false);
BENCHMARK_CAPTURE(BM_Pair, float16, DType::kFloat16, true);
BENCHMARK_CAPTURE(BM_Pair, float64, DType::kFloat64, true);

// Includes the metrics of rows and channels. The argument is the number of
// elements in a row.
void BM_PairRows(benchmark::State& state, DType dtype) {
  const AlignedBuffer target = MakeTensor(dtype, 1);
  const AlignedBuffer golden = MakeTensor(dtype, 2);
  const auto row_elements = static_cast<uint64_t>(state.range(0));
  const uint64_t rows = kTensorBytes / ElementBytes(dtype) / row_elements;
  for (auto _ : state) {
    PairAccumulator accumulator(dtype, dtype, {rows, row_elements});
    accumulator.Update(target.span(), golden.span());
    benchmark::DoNotOptimize(accumulator.Finish());
  }
  SetBytes(state, 2 * kTensorBytes);
}
BENCHMARK_CAPTURE(BM_PairRows, float32, DType::kFloat32)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(1 << 16);
BENCHMARK_CAPTURE(BM_PairRows, bfloat16, DType::kBfloat16)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(1 << 16);
BENCHMARK_CAPTURE(BM_PairRows, float64, DType::kFloat64)->Arg(4096);

void BM_Histogram(benchmark::State& state, DType dtype) {
  const AlignedBuffer tensor = MakeTensor(dtype, 1);
  for (auto _ : state) {
    HistogramCounter counter(dtype, 64, -4, 4);
    counter.Add(tensor.span());
    benchmark::DoNotOptimize(counter.Result());
  }
  SetBytes(state, kTensorBytes);
}
BENCHMARK_CAPTURE(BM_Histogram, float32, DType::kFloat32);
BENCHMARK_CAPTURE(BM_Histogram, float64, DType::kFloat64);
BENCHMARK_CAPTURE(BM_Histogram, bfloat16, DType::kBfloat16);
BENCHMARK_CAPTURE(BM_Histogram, float16, DType::kFloat16);
BENCHMARK_CAPTURE(BM_Histogram, float8_e4m3fn, DType::kFloat8E4m3fn);

// Throughput for blocks that the fast path rejects.
void BM_SummarizeCarefully(benchmark::State& state) {
  AlignedBuffer tensor = MakeTensor(DType::kFloat32, 1);
  const uint32_t nan = 0x7fc00000;
  for (size_t at = 0; at < kTensorBytes; at += 512) {
    std::memcpy(tensor.data() + at, &nan, sizeof(nan));
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(Summarize(tensor.span(), DType::kFloat32));
  }
  SetBytes(state, kTensorBytes);
}
BENCHMARK(BM_SummarizeCarefully);

}  // namespace
}  // namespace msitd::compute
