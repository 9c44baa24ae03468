#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include "programs.hpp"

namespace {
std::atomic<std::int64_t> allocation_count{0};  // NOLINT: what the replaced operators count
int* volatile escaped = nullptr;                // NOLINT: keeps an allocation from being elided

/// oneDNN makes a map of its arguments inside every primitive's call; that is out of our hands.
bool is_from_onednn(void* caller) {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (!is_from_onednn(__builtin_return_address(0))) {
    ++allocation_count;
  }
  void* memory = std::malloc(size == 0 ? 1 : size);  // NOLINT
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}  // NOLINT
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT

namespace tilemesh {
namespace {

/// Allocations in a hundred runs after ten that don't count.
std::int64_t allocations_of(const std::function<void()>& run_once) {
  for (int i = 0; i < 10; ++i) {
    run_once();
  }
  const std::int64_t before = allocation_count;
  for (int i = 0; i < 100; ++i) {
    run_once();
  }
  return allocation_count - before;
}

TEST(Heap, TheCounterCounts) {
  EXPECT_GE(allocations_of([] {
              escaped = new int(1);  // NOLINT
              delete escaped;        // NOLINT
            }),
            100);
}

TEST(Heap, ARunIntoExistingOutputsAllocatesNothing) {
  const Mesh mesh = Mesh::open({.threads_per_device = 1});
  ProgramBuilder builder("chain");
  const auto a = builder.input("a", {.shape = {3, 50}});
  const auto b = builder.input("b", {.shape = {3, 50}});
  const auto c = builder.mul(builder.sigmoid(builder.add(a, b)), a);
  builder.output("y", builder.transpose(builder.softmax(c, 1), {1, 0}));
  builder.output("c", c);
  const Executable chain = programs::prepared(mesh, builder.build());
  const std::vector<Argument> arguments{to_layout(programs::host({3, 50}), chain.input("a")),
                                        to_layout(programs::host({3, 50}), chain.input("b"))};
  std::vector<Tensor> outputs{empty(chain.output(0)), empty(chain.output(1))};
  EXPECT_EQ(allocations_of([&] { run_into(chain, arguments, outputs); }), 0);
}

TEST(Heap, NorDoesOneWithConvolutionsAndMatmuls) {
  const Mesh mesh = Mesh::open({.threads_per_device = 1});
  ProgramBuilder builder("net");
  const auto x = builder.input("x", {.shape = {1, 16, 12, 12}});
  const auto convolved =
      builder.conv(x, builder.constant(programs::iota(32 * 16 * 9), {32, 16, 3, 3}),
                   builder.constant(programs::iota(32), {32}), {});
  const auto flat = builder.reshape(builder.relu(convolved), {1, 32 * 100});
  builder.output("y", builder.matmul(flat, builder.constant(programs::iota(3200 * 8), {3200, 8})));
  const Executable net = programs::prepared(mesh, builder.build());
  const std::vector<Argument> arguments{to_layout(programs::host({1, 16, 12, 12}), net.input(0))};
  std::vector<Tensor> outputs{empty(net.output(0))};
  EXPECT_EQ(allocations_of([&] { run_into(net, arguments, outputs); }), 0);
}

TEST(Heap, ReadingAndRefillingTensorsAllocatesNothing) {
  const Mesh mesh = Mesh::open({.threads_per_device = 1});
  const Executable add = programs::prepared(mesh, programs::add({64}));
  const Tensor slot = empty(add.input("a"));
  const Tensor host = programs::host({64});
  std::vector<float> out(64);
  EXPECT_EQ(allocations_of([&] { slot.read(std::as_writable_bytes(std::span(out))); }), 0);
}

}  // namespace
}  // namespace tilemesh
