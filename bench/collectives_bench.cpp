// Times collectives between devices, within one program of many of them.

#include "collectives_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include <tilemesh/device/local_communicator.hpp>
#include <tilemesh/tilemesh.hpp>

#include "cases.hpp"

namespace bench {
namespace {

namespace tm = tilemesh;
using Clock = std::chrono::steady_clock;
using tm::literals::operator""_KiB;
using tm::literals::operator""_MiB;

/// A program of `count` all_reduces in place of `bytes` of floats on every device, one after the
/// other.
class AllReduce {
 public:
  AllReduce(const tm::MeshShape& shape, std::int64_t bytes, int count)
      : mesh_(
            tm::Mesh::open({.shape = shape, .threads_per_device = 1, .dram_bytes = arena(bytes)})),
        buffer_(tm::MeshBuffer::allocate(mesh_, {.bytes_per_device = bytes})),
        count_(count) {
    std::vector<tm::LocalCommunicator::Member> members;
    for (int i = 0; i < mesh_.device_count(); ++i) {
      members.push_back({&mesh_.device(i), tm::to_string(mesh_.shape().coord_of(i))});
    }
    const auto group = std::make_shared<tm::LocalCommunicator>(members, std::chrono::minutes(1));
    const auto exchange = std::make_shared<tm::Exchange>();
    exchange->from = {.shape = tm::Shape({bytes / 4}),
                      .placements = {tm::partial(tm::ReduceOp::sum)},
                      .mesh = tm::MeshShape{mesh_.device_count()}};
    exchange->to = exchange->from;
    exchange->to.placements = {tm::replicate()};
    for (int i = 0; i < mesh_.device_count(); ++i) {
      tm::DeviceStep step;
      step.kind = tm::DeviceStep::Kind::exchange;
      step.exchange = {exchange, group, i};
      step.operands = {{.base = 0}, {.base = 0}};
      step.name = "all_reduce";
      programs_.push_back(mesh_.device(i).prepare(
          std::vector<tm::DeviceStep>(static_cast<std::size_t>(count), step)));
    }
    mesh_.queue().enqueue_fill(buffer_, {std::byte{0}}).wait();  // sums of sums stay finite
  }

  /// Microseconds of one of them.
  double measure() {
    tm::MeshQueue& queue = mesh_.queue();
    const auto start = Clock::now();
    queue.enqueue_launch(programs_, std::vector{buffer_.address()}, {}, nullptr).wait();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / count_;
  }

 private:
  static std::int64_t arena(std::int64_t bytes) { return std::max(2 * bytes, 64_MiB); }

  tm::Mesh mesh_;
  tm::MeshBuffer buffer_;
  std::vector<std::shared_ptr<tm::DeviceProgram>> programs_;
  int count_;
};

double median(AllReduce& all_reduce) {
  constexpr std::size_t kRounds = 51;
  all_reduce.measure();  // warms up
  std::vector<double> times;
  for (std::size_t round = 0; round < kRounds; ++round) {
    times.push_back(all_reduce.measure());
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

Result between_two(std::int64_t bytes, int count) {
  AllReduce all_reduce({1, 2}, bytes, count);
  return {median(all_reduce), 0};
}

/// A whole collective on 64 devices and on 8: as many bytes on each.
Result on_64() {
  AllReduce many({8, 8}, 4_KiB, 20);
  AllReduce few({1, 8}, 4_KiB, 20);
  return {median(many), median(few)};
}

constexpr std::array kCases = {
    Case{"all_reduce_1KiB",
         [] {
           return between_two(1_KiB, 200);
         }},
    Case{"all_reduce_1MiB",
         [] {
           return between_two(1_MiB, 50);
         }},
    Case{"all_reduce_64MiB",
         [] {
           return between_two(64_MiB, 2);
         }},
    Case{"on_64", on_64},
};

}  // namespace

bool run_collectives_case(std::string_view name) {
  return run_case(kCases, name);
}

}  // namespace bench
