// Times relayout and the allocator on one thread. Reported beside each relayout: its payload bytes
// per second, and as "of_memcpy" its speed over that of memcpy of the larger side, measured in
// turns with it.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <tilemesh/memory/ledger.hpp>
#include <tilemesh/types/strided.hpp>

namespace {

namespace tm = tilemesh;
using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  tm::Shape shape;
  const char* from;
  const char* to;
  tm::DType source = tm::DType::f32;
  tm::DType target = tm::DType::f32;
};

/// Begins on a page, as arenas do, and has been touched.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    std::memset(memory_.get(), 1, bytes);
  }
  std::byte* data() { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void relayout(benchmark::State& state, const Case& c) {
  const tm::Layout from = tm::Layout::parse(c.from);
  const tm::Layout to = tm::Layout::parse(c.to);
  const auto source_bytes = static_cast<std::size_t>(from.bytes(c.shape, tm::size_of(c.source)));
  const auto target_bytes = static_cast<std::size_t>(to.bytes(c.shape, tm::size_of(c.target)));
  const std::size_t bytes = std::max(source_bytes, target_bytes);
  Memory source(bytes);
  Memory target(bytes);
  double best_copy = std::numeric_limits<double>::max();
  double best_relayout = best_copy;
  for (auto _ : state) {
    auto start = Clock::now();
    std::memcpy(target.data(), source.data(), bytes);
    benchmark::ClobberMemory();
    best_copy = std::min(best_copy, seconds_since(start));
    start = Clock::now();
    tm::relayout(source.data(), c.source, from, target.data(), c.target, to, c.shape);
    benchmark::ClobberMemory();
    const double seconds = seconds_since(start);
    best_relayout = std::min(best_relayout, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best_relayout / 1e9;
  state.counters["of_memcpy"] = best_copy / best_relayout;
}

void allocate_and_free(benchmark::State& state) {
  tm::LockstepAllocator allocator(static_cast<int>(state.range(0)), std::int64_t{1} << 30);
  // A used arena: many ranges, and many holes between them.
  std::vector<tm::ByteRange> ranges;
  for (std::int64_t i = 0; i < state.range(1) * 2; ++i) {
    ranges.push_back(*allocator.allocate(1024 + i % 7 * 640, 64, tm::Lifetime::lasting));
  }
  for (std::size_t i = 0; i < ranges.size(); i += 2)
    allocator.free(ranges[i]);
  std::int64_t i = 0;
  for (auto _ : state) {
    const auto range = allocator.allocate(512 + i++ % 9 * 512, 64, tm::Lifetime::lasting);
    allocator.free(*range);
  }
}

void ledger_allocate_and_free(benchmark::State& state) {
  tm::Ledger ledger(8, std::int64_t{1} << 30, 0);
  for (auto _ : state) {
    const auto range =
        ledger.allocate(tm::Space::dram, 4096, 64, tm::Lifetime::temporary, "activations");
    ledger.free(tm::Space::dram, *range, "activations");
  }
}

const std::vector<Case> kCases = {
    {"rows_to_nChw16c", {1, 256, 256, 256}, "rows", "aBcd16b"},
    {"nChw16c_to_rows", {1, 256, 256, 256}, "aBcd16b", "rows"},
    {"rows_to_nChw16c_small", {1, 64, 56, 56}, "rows", "aBcd16b"},
    {"nChw16c_to_rows_small", {1, 64, 56, 56}, "aBcd16b", "rows"},
    {"tiny_rows_to_nChw8c", {1, 12, 1, 1}, "rows", "aBcd8b"},
    {"tiny_nhwc_to_rows_f32_i64", {1, 3, 2, 2}, "acdb", "rows", tm::DType::f32, tm::DType::i64},
    {"rows_to_nhwc", {1, 256, 256, 256}, "rows", "acdb"},
    {"nhwc_to_rows", {1, 256, 256, 256}, "acdb", "rows"},
    {"image_to_nChw16c", {1, 3, 1024, 1024}, "rows", "aBcd16b"},
    {"transpose_4096", {4096, 4096}, "rows", "ba"},
    {"transpose_4000x4160", {4000, 4160}, "rows", "ba"},
    {"transpose_512", {512, 512}, "rows", "ba"},
    {"weights_to_BA16a64b", {4096, 4096}, "rows", "BA16a64b"},
    {"weights_to_OIhw16i16o", {512, 512, 3, 3}, "rows", "ABcd16b16a"},
    {"heads_0213", {8, 512, 16, 64}, "rows", "acbd"},
    {"rows_to_nChw16c_bf16",
     {1, 256, 256, 256},
     "rows",
     "aBcd16b",
     tm::DType::bf16,
     tm::DType::bf16},
    {"rows_to_nChw64c_u8", {1, 256, 256, 256}, "rows", "aBcd64b", tm::DType::u8, tm::DType::u8},
    {"f32_to_bf16", {4096, 4096}, "rows", "rows", tm::DType::f32, tm::DType::bf16},
    {"f32_to_f16", {4096, 4096}, "rows", "rows", tm::DType::f32, tm::DType::f16},
    {"f16_to_f32", {4096, 4096}, "rows", "rows", tm::DType::f16, tm::DType::f32},
    {"u8_to_f32", {4096, 4096}, "rows", "rows", tm::DType::u8, tm::DType::f32},
    {"f32_to_i32", {4096, 4096}, "rows", "rows", tm::DType::f32, tm::DType::i32},
    {"f32_to_bf16_nChw16c", {1, 256, 256, 256}, "rows", "aBcd16b", tm::DType::f32, tm::DType::bf16},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Case& c : kCases) {
    benchmark::RegisterBenchmark(c.name, [&c](benchmark::State& state) { relayout(state, c); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark("allocate_and_free", allocate_and_free)
      ->ArgNames({"devices", "holes"})
      ->ArgsProduct({{1, 64}, {0, 30, 1000}});
  benchmark::RegisterBenchmark("ledger_allocate_and_free", ledger_allocate_and_free);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
