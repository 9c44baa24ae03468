// Times the memory and command layer against what this machine can do, in turns within one run.

#include "mesh_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>
#include <tilemesh/memory/lockstep_allocator.hpp>
#include <tilemesh/tilemesh.hpp>

#include "cases.hpp"

namespace bench {
namespace {

namespace tm = tilemesh;
using Clock = std::chrono::steady_clock;
using tm::literals::operator""_MiB;

constexpr int kRounds = 11;
constexpr std::int64_t kTransferBytes = 64_MiB;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double nanoseconds(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// Medians of both, measured in turns after one round that doesn't count.
Result in_turns(const std::function<double()>& value, const std::function<double()>& reference) {
  std::vector<double> values;
  std::vector<double> references;
  for (int round = -1; round < kRounds; ++round) {
    const double a = value();
    const double b = reference();
    if (round >= 0) {
      values.push_back(a);
      references.push_back(b);
    }
  }
  return {median(values), median(references)};
}

Result alone(const std::function<double()>& value) {
  return {in_turns(value, [] { return 0.0; }).value, 0};
}

/// As many devices as there are cores, one thread each.
tm::Mesh mesh_of_cores() {
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
  return tm::Mesh::open({.shape = {1, cores}, .threads_per_device = 1});
}

/// An arena in use: a thousand ranges with holes between them.
class UsedArena {
 public:
  explicit UsedArena(int devices) : allocator_(devices, std::int64_t{1} << 30) {
    std::vector<tm::ByteRange> ranges;
    for (std::int64_t i = 0; i < 2000; ++i) {
      ranges.push_back(*allocator_.allocate(1024 + i % 7 * 640, 64, tm::Lifetime::lasting));
    }
    for (std::size_t i = 0; i < ranges.size(); i += 2) {
      allocator_.free(ranges[i]);
    }
  }
  /// Nanoseconds of one allocate and free.
  double measure() {
    constexpr int kPairs = 20'000;
    return nanoseconds([this] {
             for (int i = 0; i < kPairs; ++i) {
               const auto range = allocator_.allocate(512 + i % 9 * 512, 64, tm::Lifetime::lasting);
               allocator_.free(*range);
             }
           }) /
           kPairs;
  }

 private:
  tm::LockstepAllocator allocator_;
};

Result allocate_and_free() {
  UsedArena arena(1);
  return alone([&] { return arena.measure(); });
}

Result allocate_on_256() {
  UsedArena many(256);
  UsedArena one(1);
  return in_turns([&] { return many.measure(); }, [&] { return one.measure(); });
}

/// Nanoseconds of the calling thread, a device.
Result enqueue_empty() {
  constexpr int kCommands = 200;
  const tm::Mesh mesh = mesh_of_cores();
  tm::MeshQueue& queue = mesh.queue();
  return alone([&] {
    const double all = nanoseconds([&] {
      for (int i = 0; i < kCommands; ++i) {
        queue.enqueue_host([](int) {});
      }
    });
    queue.finish();
    return all / kCommands / mesh.device_count();
  });
}

/// Microseconds of one record and wait.
Result record_and_wait() {
  constexpr int kPairs = 200;
  const tm::Mesh mesh = tm::Mesh::open({.threads_per_device = 1});
  tm::MeshQueue& queue = mesh.queue();
  queue.enqueue_host([](int) {});  // so that its worker is awake
  queue.finish();
  return alone([&] {
    return nanoseconds([&] {
             for (int i = 0; i < kPairs; ++i) {
               queue.wait(queue.record());
             }
           }) /
           kPairs / 1e3;
  });
}

using Bytes = std::vector<std::byte>;

/// A host array and a second one of the same size for every device, all touched.
struct HostArrays {
  explicit HostArrays(std::size_t devices)
      : first(devices, Bytes(kTransferBytes, std::byte{1})),
        second(devices, Bytes(kTransferBytes, std::byte{2})) {}
  std::vector<Bytes> first;
  std::vector<Bytes> second;
};

double gigabytes_per_second(std::size_t devices, double ns) {
  return static_cast<double>(kTransferBytes) * static_cast<double>(devices) / ns;
}

/// memcpy of every array, a thread each, which start together.
double memcpy_speed(HostArrays& arrays) {
  const auto count = static_cast<std::ptrdiff_t>(arrays.first.size());
  std::latch ready(count + 1);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < arrays.first.size(); ++i) {
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      std::memcpy(arrays.second[i].data(), arrays.first[i].data(), kTransferBytes);
    });
  }
  ready.arrive_and_wait();
  return gigabytes_per_second(arrays.first.size(), nanoseconds([&] { threads.clear(); }));
}

/// A shard of borrowed host memory, which stays until the transfer is waited for.
template <class Shard>
Shard shard_of(const tm::Mesh& mesh, std::size_t device, auto* data, std::int64_t bytes,
               const tm::TransferRegion& region) {
  Shard shard;
  shard.coord = mesh.shape().coord_of(static_cast<int>(device));
  shard.host =
      decltype(shard.host)::borrow(std::span(data, static_cast<std::size_t>(bytes)), nullptr);
  shard.region = region;
  return shard;
}

constexpr tm::TransferRegion kWhole = {.row_bytes = kTransferBytes,
                                       .rows = 1,
                                       .host_pitch_bytes = kTransferBytes,
                                       .device_pitch_bytes = kTransferBytes};

enum class Direction { write, read };

Result transfer(Direction direction) {
  const tm::Mesh mesh = mesh_of_cores();
  const auto devices = static_cast<std::size_t>(mesh.device_count());
  HostArrays arrays(devices);
  const auto buffer = tm::MeshBuffer::allocate(mesh, {.bytes_per_device = kTransferBytes});
  std::vector<tm::ShardWrite> writes;
  std::vector<tm::ShardRead> reads;
  for (std::size_t i = 0; i < devices; ++i) {
    const std::byte* source = arrays.first[i].data();
    writes.push_back(shard_of<tm::ShardWrite>(mesh, i, source, kTransferBytes, kWhole));
    reads.push_back(
        shard_of<tm::ShardRead>(mesh, i, arrays.second[i].data(), kTransferBytes, kWhole));
  }
  tm::MeshQueue& queue = mesh.queue();
  queue.wait(queue.enqueue_write(buffer, writes));
  return in_turns(
      [&] {
        return gigabytes_per_second(devices, nanoseconds([&] {
                                      queue.wait(direction == Direction::write
                                                     ? queue.enqueue_write(buffer, writes)
                                                     : queue.enqueue_read(buffer, reads));
                                    }));
      },
      [&] { return memcpy_speed(arrays); });
}

/// Every device's columns cut out of one array of all columns.
Result write_columns() {
  constexpr std::int64_t kRowBytes = 4096;
  const tm::Mesh mesh = mesh_of_cores();
  const auto devices = static_cast<std::size_t>(mesh.device_count());
  HostArrays arrays(devices);
  const Bytes table(kTransferBytes * devices, std::byte{1});
  const auto pitch = kRowBytes * static_cast<std::int64_t>(devices);
  const auto buffer = tm::MeshBuffer::allocate(mesh, {.bytes_per_device = kTransferBytes});
  std::vector<tm::ShardWrite> writes;
  for (std::size_t i = 0; i < devices; ++i) {
    const std::int64_t begin = kRowBytes * static_cast<std::int64_t>(i);
    writes.push_back(shard_of<tm::ShardWrite>(mesh, i, table.data() + begin,
                                              std::ssize(table) - begin,
                                              {.row_bytes = kRowBytes,
                                               .rows = kTransferBytes / kRowBytes,
                                               .host_pitch_bytes = pitch,
                                               .device_pitch_bytes = kRowBytes}));
  }
  tm::MeshQueue& queue = mesh.queue();
  return in_turns(
      [&] {
        return gigabytes_per_second(
            devices, nanoseconds([&] { queue.wait(queue.enqueue_write(buffer, writes)); }));
      },
      [&] { return memcpy_speed(arrays); });
}

/// Bytes of host memory that a replicated write to 8 devices needs while it is pending, its source
/// included.
Result replicate_to_8() {
  constexpr std::int64_t kBytes = 16_MiB;
  const tm::Mesh mesh = tm::Mesh::open({.shape = {2, 4}});
  const Bytes source(kBytes, std::byte{3});
  const auto buffer = tm::MeshBuffer::allocate(mesh, {.bytes_per_device = kBytes});
  const auto heap = [] {
    const auto info = ::mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  tm::EventSource gate;
  const double before = heap();
  const tm::Event done = mesh.queue().enqueue_write_replicated(buffer, source.data(), kBytes,
                                                               nullptr, {.after = {gate.event()}});
  const double pending = heap() - before;
  gate.complete({});
  mesh.queue().wait(done);
  return {static_cast<double>(kBytes) + std::max(0.0, pending), static_cast<double>(kBytes)};
}

/// Microseconds of a replay of 100 commands and of enqueuing them, each until all have ended.
Result replay_100(const tm::Mesh& mesh) {
  constexpr int kCommands = 100;
  tm::MeshQueue& queue = mesh.queue();
  const std::function<void()> commands = [&queue] {
    for (int i = 0; i < kCommands; ++i) {
      queue.enqueue_host([](int) {});
    }
  };
  const tm::MeshTrace trace = tm::capture(mesh, commands);
  const auto microseconds = [&queue](const std::function<void()>& call) {
    return nanoseconds([&] {
             call();
             queue.finish();
           }) /
           1e3;
  };
  return in_turns([&] { return microseconds([&] { trace.replay(); }); },
                  [&] { return microseconds(commands); });
}

constexpr std::array kCases = {
    Case{"allocate_and_free", allocate_and_free},
    Case{"allocate_on_256", allocate_on_256},
    Case{"enqueue_empty", enqueue_empty},
    Case{"record_and_wait", record_and_wait},
    Case{"write_64MiB",
         [] {
           return transfer(Direction::write);
         }},
    Case{"read_64MiB",
         [] {
           return transfer(Direction::read);
         }},
    Case{"write_columns", write_columns},
    Case{"replicate_to_8", replicate_to_8},
    Case{"replay_100",
         [] {
           return replay_100(mesh_of_cores());
         }},
};

}  // namespace

bool run_mesh_case(std::string_view name) {
  return run_case(kCases, name);
}

}  // namespace bench
