#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using std::chrono_literals::operator""s;

/// A program that fails when it runs: an index from outside reaches past the data.
Executable fragile(const Mesh& mesh) {
  ProgramBuilder builder("fragile");
  const auto x = builder.input("x", {.shape = {4}});
  const auto index = builder.input("index", {.shape = {1}, .dtype = DType::i64});
  builder.output("y", builder.op("gather", {x, index}, {{"axis", std::int64_t{0}}})[0]);
  return programs::prepared(mesh, builder.build());
}

Tensor index(std::int64_t value) {
  return Tensor::copy(std::vector<std::int64_t>{value}, {.shape = {1}});
}

TEST(Failure, TravelsWithTensorsAndTheQueueGoesOn) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Executable gather = fragile(mesh);
  const Executable relu = programs::prepared(mesh, programs::twice_relu({1}));
  const Tensor bad = submit(gather, {programs::host({4}), index(9)})[0];
  const Tensor worse = submit(relu, {bad})[0];
  const Tensor good = submit(gather, {programs::host({4}), index(3)})[0];
  std::string first;
  try {
    bad.wait();
    FAIL() << "an index out of range passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    first = error.what();
    EXPECT_NE(first.find("fragile"), std::string::npos) << first;
    EXPECT_NE(first.find("9"), std::string::npos) << first;
  }
  try {
    worse.to_host();
    FAIL() << "a failed argument gave a result";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), first);
  }
  EXPECT_EQ(good.item<float>(), 3.0F);
}

TEST(Failure, ABlockingRunThrowsIt) {
  const Mesh mesh = Mesh::open();
  const Executable gather = fragile(mesh);
  EXPECT_THROW(run(gather, {programs::host({4}), index(4)}), Error);
  EXPECT_EQ(run(gather, {programs::host({4}), index(-1)})[0].item<float>(), 3.0F);
}

TEST(Waiting, ThenIsCalledOnceWithTheOutcome) {
  const Mesh mesh = Mesh::open();
  const Executable relu = programs::prepared(mesh, programs::twice_relu({100}));
  std::promise<bool> outcome;  // a second call would throw
  auto called = outcome.get_future();
  const Tensor y = submit(relu, {programs::host({100})})[0];
  y.then([&](const Status& status) { outcome.set_value(status.ok()); });
  y.wait();
  ASSERT_EQ(called.wait_for(60s), std::future_status::ready);  // it may come just after the wait
  EXPECT_TRUE(called.get());
}

TEST(Waiting, ACallbackMaySubmit) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Executable relu = programs::prepared(mesh, programs::twice_relu({8}));
  std::promise<Tensor> second;
  const Tensor y = submit(relu, {programs::host({8})})[0];
  y.then([&](const Status&) { second.set_value(submit(relu, {y})[0]); });
  auto future = second.get_future();
  ASSERT_EQ(future.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(future.get().values<float>()[7], 28.0F);
}

TEST(Waiting, ManyThreadsSubmitOneExecutable) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Executable add = programs::prepared(mesh, programs::add({64}));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto first = static_cast<float>(t * 1000 + i);
        const auto y =
            (i % 2 == 0 ? run(add, {programs::host({64}, first), programs::host({64})})
                        : submit(add, {programs::host({64}, first), programs::host({64})}))[0]
                .values<float>();
        right += y[63] == first + 126 ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right.load(), 200);
}

}  // namespace
}  // namespace tilemesh
