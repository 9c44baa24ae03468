#include "backends/cpu/device.hpp"

#include <future>

#include <gtest/gtest.h>

#include "backends/cpu/backend.hpp"

namespace tilemesh::cpu {
namespace {

std::vector<std::unique_ptr<Device>> open(int count, int threads = 1) {
  return backend().open(
      {.count = count, .threads_per_device = threads, .dram_bytes = 1 << 20, .l1_bytes = 1 << 16});
}

Event enqueue(DeviceQueue& queue, std::function<void()> function, std::vector<Event> after = {}) {
  Command command{.work = HostCommand{std::move(function)}, .after = std::move(after)};
  const Event done = command.done.event();
  queue.enqueue(std::move(command));
  return done;
}

TEST(CpuDevice, ClosingWaitsForTheRunningCommand) {
  auto devices = open(1);
  const auto queue = devices[0]->create_queue();
  const EventSource begun;
  std::promise<void> gate;
  bool ended = false;
  const Event running = enqueue(*queue, [&] {
    begun.complete({});
    gate.get_future().wait();
    ended = true;
  });
  begun.event().wait();
  std::thread opener([&] { gate.set_value(); });
  devices.clear();
  EXPECT_TRUE(ended);
  EXPECT_NO_THROW(running.wait());
  opener.join();
}

TEST(CpuDevice, MayCloseOnItsOwnWorker) {
  for (const int count : {1, 8}) {
    auto devices = std::make_shared<std::vector<std::unique_ptr<Device>>>(open(count));
    const auto queue = devices->front()->create_queue();
    std::promise<void> gate;
    const Event closed =
        enqueue(*queue, [held = devices, go = gate.get_future().share()]() mutable {
          go.wait();
          held.reset();
        });
    devices.reset();
    gate.set_value();
    EXPECT_NO_THROW(closed.wait());
  }
}

TEST(CpuDevice, NamesItselfUnlessAPlaceIsGiven) {
  const auto devices = backend().open({.count = 2, .dram_bytes = 1 << 20, .places = {"(7)"}});
  for (const auto& [index, place] : {std::pair{0, "(7)"}, std::pair{1, "cpu:1"}}) {
    const auto queue = devices[static_cast<std::size_t>(index)]->create_queue();
    try {
      enqueue(*queue, [] { throw std::runtime_error("bad"); }).wait();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), std::string("device ") + place + ": bad");
    }
  }
}

TEST(CpuBackend, RefusesWhatTheMachineCannotGive) {
  const int cores = backend().query(1, 0).cores;
  EXPECT_THROW(open(0), Error);
  EXPECT_THROW(open(1 << 20), Error);
  EXPECT_THROW(open(1, cores + 1), Error);
  EXPECT_THROW(open(cores + 1, 2), Error);
  EXPECT_EQ(open(cores + 1, 0).front()->info().threads, 1);
}

}  // namespace
}  // namespace tilemesh::cpu
