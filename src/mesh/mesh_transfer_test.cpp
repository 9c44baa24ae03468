#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kGiga = std::int64_t{1} << 30;

class MeshTransfer : public MeshTest {
 protected:
  MeshCoord first() const { return mesh_.shape().coord_of(0); }
  MeshCoord last() const { return mesh_.shape().coord_of(mesh_.device_count() - 1); }
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      return error.what();
    }
    return "accepted";
  }
  static void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshTransfer, testing::ValuesIn(mesh_cases()), mesh_case_name);

std::vector<std::uint8_t> counting(std::size_t count, std::uint8_t from = 0) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), from);
  return bytes;
}

TEST(HostBytes, SharesWhatItIsMadeOf) {
  auto vector = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3});
  const std::weak_ptr<std::vector<std::int32_t>> watch = vector;
  MutableHostBytes bytes(vector);
  EXPECT_EQ(bytes.size_bytes(), 12);
  bytes.elements<std::int32_t>()[1] = 20;
  EXPECT_EQ((*vector)[1], 20);
  const HostBytes read = bytes;
  bytes = {};
  vector.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(read.elements<std::int32_t>()[1], 20);
  EXPECT_EQ(read.from(4).elements<std::int32_t>()[0], 20);
  EXPECT_EQ(read.from(100).size_bytes(), 0);
  EXPECT_EQ(read.from(-1).size_bytes(), 12);
  EXPECT_EQ(HostBytes().size_bytes(), 0);
  EXPECT_EQ(MutableHostBytes::allocate(0).size_bytes(), 0);
}

TEST(HostBytes, ACopyIsItsOwn) {
  std::vector<std::uint8_t> values = {1, 2, 3};
  const HostBytes copy = HostBytes::copy(std::span(values));
  const HostBytes borrowed = HostBytes::borrow(std::span(values), nullptr);
  const HostBytes taken = std::vector<std::uint8_t>(values);
  values[0] = 9;
  EXPECT_EQ(copy.elements<std::uint8_t>()[0], 1);
  EXPECT_EQ(borrowed.elements<std::uint8_t>()[0], 9);
  EXPECT_EQ(taken.elements<std::uint8_t>()[0], 1);
}

TEST_P(MeshTransfer, ShardsAreCutOutOfALargerHostArray) {
  // A host array of 12 rows of 10 bytes; each device gets 5 rows of 4 bytes, at another place.
  const auto host = counting(120);
  const MeshBuffer buffer = allocate(20);
  const HostBytes whole = HostBytes::borrow(std::span(host), nullptr);
  std::vector<ShardWrite> writes;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    writes.push_back({.coord = mesh_.shape().coord_of(i),
                      .host = whole.from(10 * (i % 7) + i % 6),
                      .region = rows(5, 4, 10)});
  }
  queue_.enqueue_write(buffer, writes);
  const auto all = read_all(buffer);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t device = i / 20;
    const std::size_t row = i % 20 / 4;
    ASSERT_EQ(all[i], host[10 * (device % 7 + row) + device % 6 + i % 4]) << i;
  }
}

TEST_P(MeshTransfer, ShardsComeBackIntoALargerHostArray) {
  const MeshBuffer buffer = allocate(20);
  queue_.enqueue_fill(buffer, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
  const auto host = MutableHostBytes::allocate(50);
  queue_.enqueue_read(buffer, {{.coord = last(), .host = host.from(3), .region = rows(5, 4, 10)}})
      .wait();
  const auto got = host.elements<std::uint8_t>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t column = i % 10;
    ASSERT_EQ(got[i], column >= 3 && column < 7 ? column - 2 : 0) << i;
  }
}

TEST_P(MeshTransfer, TheFormOfTheManual) {
  const MeshBuffer buffer = allocate(128, "scratch");
  const HostBytes left = counting(128);
  const HostBytes right = counting(128, 100);
  queue_.enqueue_write(buffer, {{.coord = first(), .host = left},
                                {.coord = last(), .host = right, .region = rows(8, 16)}});
  const auto all = read_all(buffer);
  EXPECT_EQ(all[all.size() - 1], 227);
  EXPECT_EQ(all[5], mesh_.device_count() == 1 ? 105 : 5);
}

TEST_P(MeshTransfer, ARegionLeftOutIsTheWholeBufferAndNothingLess) {
  const MeshBuffer buffer = allocate(100, "weights");
  const auto write = [&](std::size_t bytes, std::int64_t offset) {
    return refusal([&] {
      queue_.enqueue_write(buffer,
                           {{.coord = first(), .host = counting(bytes), .device_offset = offset}});
    });
  };
  EXPECT_EQ(write(100, 0), "accepted");
  EXPECT_EQ(write(60, 40), "accepted");
  EXPECT_EQ(write(0, 100), "accepted");
  expect_parts(write(99, 0), {"\"weights\"", "99", "100"});
  expect_parts(write(101, 0), {"\"weights\"", "101", "100"});
  expect_parts(write(100, 40), {"\"weights\"", "100", "60"});
  expect_parts(write(0, 101), {"\"weights\""});
  expect_parts(write(100, -1), {"\"weights\""});
  expect_parts(refusal([&] {
                 queue_.enqueue_read(buffer,
                                     {{.coord = last(), .host = MutableHostBytes::allocate(99)}});
               }),
               {"\"weights\"", "99", "100"});
}

TEST_P(MeshTransfer, ASourceSmallerThanItsRegionNamesBothSizes) {
  const MeshBuffer buffer = allocate(4096, "weights");
  const HostBytes host = counting(39);
  const auto text = refusal([&] {
    queue_.enqueue_write(buffer, {{.coord = first(), .host = host, .region = rows(4, 3, 12)}});
  });
  EXPECT_EQ(text, "accepted") << "3 pitches of 12 and a row of 3 are 39";
  expect_parts(refusal([&] {
                 queue_.enqueue_write(
                     buffer, {{.coord = first(), .host = host.from(1), .region = rows(4, 3, 12)}});
               }),
               {"\"weights\"", "39", "38"});
  expect_parts(refusal([&] { queue_.enqueue_write_replicated(buffer, counting(4097)); }),
               {"\"weights\"", "4097", "4096"});
  // One bad shard, and nothing is enqueued.
  const Counters before = mesh_.counters();
  EXPECT_NE(refusal([&] {
              queue_.enqueue_write(buffer,
                                   {{.coord = first(), .host = host, .region = rows(1, 39)},
                                    {.coord = last(), .host = host, .region = rows(1, 40)}});
            }),
            "accepted");
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 0);
}

TEST_P(MeshTransfer, AWriteMayRepeatARow) {
  const MeshBuffer buffer = allocate(12);
  const HostBytes host = counting(3, 1);
  TransferRegion region = rows(4, 3);
  region.host_pitch_bytes = 0;
  queue_.enqueue_write(buffer, {{.coord = first(), .host = host, .region = region}});
  const auto all = read_all(buffer);
  EXPECT_EQ((std::vector<std::uint8_t>(all.begin(), all.begin() + 12)),
            (std::vector<std::uint8_t>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_NE(refusal([&] {
              queue_.enqueue_read(
                  buffer,
                  {{.coord = first(), .host = MutableHostBytes::allocate(3), .region = region}});
            }),
            "accepted")
      << "rows that a read writes may not overlap";
}

TEST_P(MeshTransfer, AReadWhoseResultIsDroppedAtOnceHurtsNobody) {
  const MeshBuffer buffer = allocate(64 << 10);
  queue_.enqueue_fill(buffer, {std::byte{7}});
  std::weak_ptr<std::vector<std::uint8_t>> watch;
  for (int i = 0; i < 50; ++i) {
    auto target = std::make_shared<std::vector<std::uint8_t>>(64 << 10);
    watch = target;
    queue_.enqueue_read(buffer, {{.coord = last(), .host = std::move(target)}});
  }
  queue_.finish();
  EXPECT_TRUE(watch.expired());
}

TEST_P(MeshTransfer, AReadOwnsItsTargetUntilItHasEnded) {
  const MeshBuffer buffer = allocate(100);
  const EventSource gate;
  auto target = std::make_shared<std::vector<std::uint8_t>>(100);
  const std::weak_ptr<std::vector<std::uint8_t>> watch = target;
  const Event done = queue_.enqueue_read(buffer, {{.coord = first(), .host = std::move(target)}},
                                         {.after = {gate.event()}});
  EXPECT_FALSE(watch.expired());
  gate.complete({});
  done.wait();
  EXPECT_TRUE(watch.expired());
}

TEST_P(MeshTransfer, HostMemoryIsSharedAndACopyIsNot) {
  const MeshBuffer buffer = allocate(3);
  for (const bool copies : {false, true}) {
    std::vector<std::uint8_t> values = {1, 2, 3};
    const EventSource gate;
    const HostBytes host =
        copies ? HostBytes::copy(std::span(values)) : HostBytes::borrow(std::span(values), nullptr);
    queue_.enqueue_write(buffer, {{.coord = first(), .host = host}}, {.after = {gate.event()}});
    values[1] = 20;  // after the enqueue has returned, and before the transfer may begin
    gate.complete({});
    EXPECT_EQ(read_all(buffer)[1], copies ? 2 : 20);
  }
}

TEST_P(MeshTransfer, OneHostBufferServesAllDevices) {
  const MeshBuffer buffer = allocate(1000);
  auto values = std::make_shared<std::vector<std::uint8_t>>(counting(1000));
  const std::weak_ptr<std::vector<std::uint8_t>> watch = values;
  const EventSource gate;
  const Event done =
      queue_.enqueue_write_replicated(buffer, std::move(values), {.after = {gate.event()}});
  EXPECT_LE(watch.use_count(), mesh_.device_count() + 1) << "one vector, a handle a command";
  gate.complete({});
  done.wait();
  EXPECT_TRUE(watch.expired());
  const auto all = read_all(buffer);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], i % 1000 % 256);
  }
}

TEST_P(MeshTransfer, ShardsSmallerThanAPageHaveNeighboursThatStay) {
  std::vector<MeshBuffer> buffers;
  for (int i = 0; i < 64; ++i) {
    buffers.push_back(allocate(1 + i % 5));
    queue_.enqueue_fill(buffers.back(), {static_cast<std::byte>(i)});
  }
  queue_.enqueue_write(buffers[10], {{.coord = last(), .host = counting(1, 200)}});
  for (int i = 0; i < 64; ++i) {
    const auto all = read_all(buffers[static_cast<std::size_t>(i)]);
    for (std::size_t k = 0; k + 1 < all.size(); ++k) {
      ASSERT_EQ(all[k], i == 10 && k + 1 == all.size() ? 200 : i);
    }
  }
}

TEST_P(MeshTransfer, CopiesGoFromCoordinateToCoordinate) {
  const MeshBuffer source = allocate(16, "source");
  const MeshBuffer target = allocate(16, "target");
  queue_.enqueue_host([](int) {});
  std::vector<ShardWrite> writes;
  std::vector<ShardCopy> ring;
  const int count = mesh_.device_count();
  for (int i = 0; i < count; ++i) {
    writes.push_back({.coord = mesh_.shape().coord_of(i),
                      .host = counting(16, static_cast<std::uint8_t>(16 * i))});
    ring.push_back({.from = mesh_.shape().coord_of(i),
                    .to = mesh_.shape().coord_of((i + 1) % count),
                    .source_offset = 4,
                    .target_offset = 8,
                    .bytes = 8});
  }
  queue_.enqueue_fill(target, {std::byte{255}});
  queue_.enqueue_write(source, writes);
  queue_.enqueue_copy(source, target, ring);
  queue_.enqueue_fill(source, {std::byte{9}});  // must not overtake the copies that read it
  const auto all = read_all(target);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto from = static_cast<std::size_t>(count + static_cast<int>(i / 16) - 1) %
                      static_cast<std::size_t>(count);
    ASSERT_EQ(all[i], i % 16 < 8 ? 255 : 16 * from + i % 16 - 4) << i;
  }
}

TEST_P(MeshTransfer, CopiesAreOrderedOnBothDevicesRoundAfterRound) {
  const MeshBuffer buffer = allocate(64);
  std::atomic<int> wrong = 0;
  const int count = mesh_.device_count();
  for (int round = 0; round < 100; ++round) {
    const auto value = static_cast<std::byte>(round);
    queue_.enqueue_fill(buffer, {value});
    const auto got = MutableHostBytes::allocate(64);
    queue_.enqueue_write(buffer, {{.coord = first(), .host = counting(64, std::uint8_t(round))}});
    queue_.enqueue_copy(buffer, buffer, {{.from = first(), .to = last()}});
    queue_.enqueue_read(buffer, {{.coord = last(), .host = got}})
        .then([&wrong, got, round](const Status& status) {
          const auto values = got.elements<std::uint8_t>();
          for (std::size_t i = 0; i < values.size(); ++i) {
            wrong += values[i] == static_cast<std::uint8_t>(round + static_cast<int>(i)) ? 0 : 1;
          }
          wrong += status.ok() ? 0 : 1;
        });
  }
  queue_.finish();
  EXPECT_EQ(wrong.load(), 0) << count;
}

TEST_P(MeshTransfer, CopiesThatCannotBeAreRefused) {
  const MeshBuffer source = allocate(16, "source");
  const MeshBuffer target = allocate(8, "target");
  const auto copy = [&](const ShardCopy& shard) {
    return refusal([&] { queue_.enqueue_copy(source, target, {shard}); });
  };
  EXPECT_EQ(copy({.from = first(), .to = last(), .bytes = 8}), "accepted");
  EXPECT_EQ(copy({.from = first(), .to = last(), .source_offset = 16}), "accepted");
  expect_parts(copy({.from = first(), .to = last()}), {"\"target\"", "16", "8"});
  expect_parts(copy({.from = first(), .to = last(), .source_offset = 9, .bytes = 8}),
               {"\"source\""});
  expect_parts(copy({.from = first(), .to = last(), .source_offset = 17}), {"\"source\""});
  expect_parts(copy({.from = {9, 9}, .to = last(), .bytes = 1}), {"(9,9)"});
  expect_parts(copy({.from = first(), .to = {9, 9}, .bytes = 1}), {"(9,9)"});
  EXPECT_TRUE(queue_.enqueue_copy(source, target, std::span<const ShardCopy>()).ready());
  queue_.finish();
}

TEST_P(MeshTransfer, ADeviceThatIsHeldUpHoldsUpNoTransferOfOthers) {
  if (mesh_.device_count() == 1) {
    return;  // there are no others
  }
  const MeshBuffer buffer = allocate(100);
  const EventSource gate;
  mesh_.submesh(MeshRange::at(first())).queue().enqueue_host([](int) {}, {.after = {gate.event()}});
  std::vector<ShardWrite> writes;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    writes.push_back(
        {.coord = mesh_.shape().coord_of(i), .host = counting(100, static_cast<std::uint8_t>(i))});
  }
  const Event all = queue_.enqueue_write(buffer, writes);
  const Mesh other = mesh_.submesh(MeshRange::at(last()));
  const auto got = MutableHostBytes::allocate(100);
  other.queue()
      .enqueue_read(buffer.at(MeshRange::at(last())), {{.coord = {0, 0}, .host = got}})
      .wait();
  EXPECT_EQ(got.elements<std::uint8_t>()[1], mesh_.device_count());
  EXPECT_FALSE(all.ready());
  gate.complete({});
  EXPECT_NO_THROW(all.wait());
}

TEST_P(MeshTransfer, AKernelThatStallsTimesOutAndNothingElseSuffers) {
  const std::int64_t before = used_bytes();
  std::optional<MeshBuffer> buffer = allocate(64);
  std::atomic<bool> go = false;
  const EventSource gate;
  queue_.enqueue_host(
      [&go](int) {
        while (!go.load()) {
          std::this_thread::yield();
        }
      },
      {.after = {gate.event()}});
  std::thread other([&] { gate.complete({}); });  // where the null backend runs it
  try {
    queue_.finish(2ms);
    ADD_FAILURE() << "it didn't time out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
  }
  go.store(true);
  other.join();
  EXPECT_NO_THROW(queue_.finish(1h));
  queue_.enqueue_fill(*buffer, {std::byte{3}});
  EXPECT_EQ(read_all(*buffer)[0], 3);
  buffer.reset();
  mesh_.core().drain();
  EXPECT_EQ(used_bytes(), before);
}

/// Only what is touched takes memory, and a null device touches nothing when it allocates.
TEST(MeshTransferLarge, ABufferOfMoreThanFourGigabytesKeepsItsBytes) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .backend = "null", .dram_bytes = 10 * kGiga});
  const auto buffer = MeshBuffer::allocate(mesh, {.bytes_per_device = 4 * kGiga + 4096});
  const auto other = MeshBuffer::allocate(mesh, {.bytes_per_device = 4 * kGiga + 4096});
  EXPECT_GT(other.address().offset, 4 * kGiga);
  MeshQueue& queue = mesh.queue();
  const MeshCoord at = {0, 1};
  const HostBytes both = counting(16, 100);
  // Two rows that are equal modulo 2^32 bytes.
  TransferRegion far_rows = rows(2, 8);
  far_rows.device_pitch_bytes = 4 * kGiga;
  queue.enqueue_write(buffer,
                      {{.coord = at, .host = both, .region = far_rows, .device_offset = 64}});
  queue.enqueue_copy(buffer, other,
                     {{.from = at,
                       .to = {0, 0},
                       .source_offset = 4 * kGiga + 64,
                       .target_offset = 4 * kGiga + 128,
                       .bytes = 8}});
  queue.enqueue_fill(buffer.slice(4 * kGiga + 64, 4), {std::byte{9}});
  const auto got = MutableHostBytes::allocate(16);
  const auto copied = MutableHostBytes::allocate(8);
  queue.enqueue_read(buffer, {{.coord = at, .host = got, .region = far_rows, .device_offset = 64}});
  queue.enqueue_read(
      other,
      {{.coord = {0, 0}, .host = copied, .region = rows(1, 8), .device_offset = 4 * kGiga + 128}});
  queue.finish();
  const auto bytes = got.elements<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin(), bytes.end()),
            (std::vector<std::uint8_t>{100, 101, 102, 103, 104, 105, 106, 107, 9, 9, 9, 9, 112, 113,
                                       114, 115}));
  EXPECT_EQ(copied.elements<std::uint8_t>()[7], 115);
}

TEST(MeshTransferLarge, BuffersBeyondFourGigabytesKeepTheirBytes) {
  for (const char* backend : {"cpu", "null"}) {
    const Mesh mesh = Mesh::open({.shape = {1, 2},
                                  .backend = backend,
                                  .dram_bytes = 5 * kGiga,
                                  .decorate_allocator = beyond_four_gigabytes});
    const auto buffer = MeshBuffer::allocate(mesh, {.bytes_per_device = 100});
    const auto copied = MeshBuffer::allocate(mesh, {.bytes_per_device = 100});
    ASSERT_GE(buffer.address().offset, 4 * kGiga);
    MeshQueue& queue = mesh.queue();
    queue.enqueue_write_replicated(buffer, counting(100));
    queue.enqueue_copy(buffer, copied);
    queue.enqueue_fill(buffer, {std::byte{200}});
    queue.enqueue_copy(copied, buffer, {{.from = {0, 0}, .to = {0, 1}, .bytes = 50}});
    const auto got = MutableHostBytes::allocate(100);
    queue.enqueue_read(buffer, {{.coord = {0, 1}, .host = got}}).wait();
    EXPECT_EQ(got.elements<std::uint8_t>()[49], 49) << backend;
    EXPECT_EQ(got.elements<std::uint8_t>()[50], 200) << backend;
    const std::byte* const arena = mesh.device(1).map(Space::dram);
    EXPECT_EQ(arena[buffer.address().offset + 49], std::byte{49}) << "where it says that it lies";
  }
}

}  // namespace
}  // namespace tilemesh
