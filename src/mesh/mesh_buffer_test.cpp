#include "tilemesh/mesh/mesh_buffer.hpp"

#include <optional>

#include "tilemesh/memory/allocator_adaptors.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

std::string complaint(const auto& use) {
  try {
    use();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "nothing";
}

class MeshBufferTest : public MeshTest {};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshBufferTest, testing::ValuesIn(mesh_cases()), mesh_case_name);

TEST_P(MeshBufferTest, KnowsWhatWasAskedFor) {
  const MeshBuffer buffer = MeshBuffer::allocate(
      mesh_, {.bytes_per_device = 100, .space = Space::l1, .label = "weights", .alignment = 4096});
  EXPECT_TRUE(buffer.is_allocated());
  EXPECT_EQ(buffer.bytes_per_device(), 100);
  EXPECT_EQ(buffer.space(), Space::l1);
  EXPECT_EQ(buffer.label(), "weights");
  EXPECT_EQ(buffer.address().offset % 4096, 0);
  EXPECT_EQ(buffer.mesh(), mesh_);
}

TEST_P(MeshBufferTest, ABufferOfNothingHasAnAddressOfItsOwn) {
  const MeshBuffer a = allocate(0);
  const MeshBuffer b = allocate(0);
  EXPECT_NE(a.address().offset, b.address().offset);
  EXPECT_NO_THROW(queue_.enqueue_fill(a, {std::byte{1}}).wait());
}

TEST_P(MeshBufferTest, LivesInTheLedgerFromAllocationToTheEnd) {
  const std::int64_t before = used_bytes();
  {
    MeshBuffer first = allocate(1000, "first");
    EXPECT_GE(used_bytes(), before + 1000);
    MeshBuffer moved = std::move(first);
    EXPECT_FALSE(first.is_allocated());  // NOLINT: what a moved-from buffer says is its contract
    EXPECT_TRUE(moved.is_allocated());
    MeshBuffer target = allocate(2000, "second");
    target = std::move(moved);
    EXPECT_EQ(target.label(), "first");
    EXPECT_LT(used_bytes(), before + 3000);
  }
  EXPECT_EQ(used_bytes(), before);
}

TEST_P(MeshBufferTest, UseAfterDeallocateNamesTheBuffer) {
  MeshBuffer buffer = allocate(10, "cache");
  buffer.deallocate();
  EXPECT_FALSE(buffer.is_allocated());
  for (const std::string& text :
       {complaint([&] { (void)buffer.address(); }), complaint([&] { buffer.deallocate(); }),
        complaint([&] { queue_.enqueue_fill(buffer, {std::byte{0}}); })}) {
    EXPECT_TRUE(text.starts_with("deallocated: buffer \"cache\"")) << text;
  }
}

TEST_P(MeshBufferTest, RefusesWhatCannotBe) {
  const auto refuses = [this](const MeshBufferOptions& options) {
    try {
      MeshBuffer::allocate(mesh_, options);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument;
    }
  };
  EXPECT_TRUE(refuses({.bytes_per_device = -1}));
  EXPECT_TRUE(refuses({.bytes_per_device = 1, .space = Space::host}));
  EXPECT_TRUE(refuses({.bytes_per_device = 1, .alignment = 0}));
  EXPECT_TRUE(refuses({.bytes_per_device = 1, .alignment = 48}));
}

TEST_P(MeshBufferTest, AShortageSaysWhoHoldsWhat) {
  const MeshBuffer large = allocate(900 << 10, "embeddings");
  try {
    allocate(500 << 10, "workspace");
    FAIL() << "more was given than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    for (const char* part : {"workspace", "embeddings"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(allocate(std::numeric_limits<std::int64_t>::max()), Error);
}

TEST_P(MeshBufferTest, AFreedRangeIsNotReusedBeforeItsCommandsEnd) {
  const EventSource gate;
  MeshBuffer old = allocate(600 << 10, "old");
  queue_.enqueue_host([](int) {}, {.after = {gate.event()}});
  const Event filled = queue_.enqueue_fill(old, {std::byte{1}});
  mesh_.queue(1).enqueue_host([](int) {}, {.after = {gate.event()}});
  { const MeshBuffer freed = std::move(old); }
  EXPECT_GE(used_bytes(), 600 << 10) << "commands that use it are still pending";
  gate.complete({});
  mesh_.core().drain();
  EXPECT_TRUE(filled.ready());
  EXPECT_EQ(used_bytes(), 0);
}

TEST_P(MeshBufferTest, AShortageDrainsWhatIsPendingFirst) {
  for (int round = 0; round < 20; ++round) {
    MeshBuffer old = allocate(600 << 10, "old");
    queue_.enqueue_fill(old, {std::byte{1}, std::byte{2}, std::byte{3}});
    mesh_.queue(1).enqueue_fill(old, {std::byte{1}});
    old.deallocate();  // the fills may still be pending
    const MeshBuffer next = allocate(600 << 10, "next");
    ASSERT_TRUE(next.is_allocated());
  }
}

TEST_P(MeshBufferTest, AShortageDoesNotWaitForEverForWhatIsPending) {
  MeshOptions options = GetParam().options;
  for (const auto timeout : {std::chrono::milliseconds(0), std::chrono::milliseconds(3)}) {
    options.shortage_timeout = timeout;
    const Mesh mesh = Mesh::open(options);
    const EventSource gate;
    {
      const auto old = MeshBuffer::allocate(mesh, {.bytes_per_device = 600 << 10, .label = "old"});
      mesh.queue().enqueue_fill(old, {std::byte{1}}, {.after = {gate.event()}});
    }
    const auto next = [&] {
      return MeshBuffer::allocate(mesh, {.bytes_per_device = 600 << 10, .label = "next"});
    };
    const std::string text = complaint(next);
    for (const std::string& part :
         {std::string("out_of_memory: "), std::string("\"next\""), std::string("\"old\""),
          "still pending after " + std::to_string(timeout.count()) + "ms"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    gate.complete({});
    mesh.queue().finish();
    EXPECT_TRUE(next().is_allocated());
  }
  options.shortage_timeout = -std::chrono::milliseconds(1);
  EXPECT_THROW(Mesh::open(options), Error);
}

TEST_P(MeshBufferTest, TemporariesGrowFromTheOtherEnd) {
  const MeshBuffer lasting = allocate(64);
  const MeshBuffer temporary =
      MeshBuffer::allocate(mesh_, {.bytes_per_device = 64, .temporary = true});
  EXPECT_LT(lasting.address().offset, 1 << 10);
  EXPECT_GT(temporary.address().offset, 900 << 10);
}

TEST_P(MeshBufferTest, ASecondFreeSaysWhereTheFirstWas) {
  MeshBuffer buffer = allocate(64, "cache");
  const auto line = std::to_string(__LINE__ + 1);
  buffer.deallocate();
  const std::string text = complaint([&] { buffer.deallocate(); });
  EXPECT_TRUE(text.starts_with("deallocated: buffer \"cache\" was freed at ")) << text;
  EXPECT_NE(text.find("mesh_buffer_test.cpp:" + line), std::string::npos) << text;
  EXPECT_EQ(used_bytes(), 0);
}

TEST_P(MeshBufferTest, ViewsSeeTheBytesAndShareTheLife) {
  MeshBuffer buffer = allocate(16, "whole");
  const MeshBufferView middle = buffer.slice(4, 8);
  const MeshBufferView end = middle.slice(6, 2);
  EXPECT_EQ(middle.address().offset, buffer.address().offset + 4);
  EXPECT_EQ(end.address().offset, buffer.address().offset + 10);
  EXPECT_EQ(end.bytes_per_device(), 2);
  EXPECT_EQ(end.label(), "whole");
  EXPECT_EQ(end.generation(), buffer.generation());
  EXPECT_EQ(end.space(), Space::dram);
  queue_.enqueue_fill(buffer, {std::byte{1}});
  queue_.enqueue_fill(middle, {std::byte{2}});
  queue_.enqueue_fill(end, {std::byte{3}});
  queue_.enqueue_copy(end, buffer.slice(0, 2));
  const auto all = read_all(buffer);
  EXPECT_EQ((std::vector<std::uint8_t>(all.begin(), all.begin() + 16)),
            (std::vector<std::uint8_t>{3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 1, 1, 1, 1}));

  const MeshBuffer moved = std::move(buffer);
  EXPECT_TRUE(middle.is_allocated()) << "a move changes nothing for views";
  EXPECT_EQ(complaint([&] { (void)buffer.address(); }),  // NOLINT: what a moved-from buffer says
            "deallocated: a buffer that was moved from is used: use the one it was moved to");
}

TEST_P(MeshBufferTest, ViewsRefuseWhatIsOutside) {
  const MeshBuffer buffer = allocate(16, "whole");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const auto& [offset, bytes] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 1}, {0, -1}, {0, 17}, {16, 1}, {17, 0}, {1, kMost}, {kMost, kMost}}) {
    EXPECT_THROW((void)buffer.slice(offset, bytes), Error) << offset << ", " << bytes;
  }
  EXPECT_EQ(buffer.slice(16, 0).bytes_per_device(), 0);
  EXPECT_THROW((void)buffer.slice(4, 8).slice(4, 5), Error) << "views don't grow";
  EXPECT_THROW((void)buffer.at(MeshRange::at({7, 7})), Error);
  std::byte byte{};
  EXPECT_THROW(queue_.enqueue_write_replicated(buffer.slice(15, 1), &byte, 2, nullptr), Error);
}

TEST_P(MeshBufferTest, AViewOfSomeCoordinatesTouchesNoOthers) {
  const MeshBuffer buffer = allocate(4);
  queue_.enqueue_fill(buffer, {std::byte{1}});
  const MeshCoord last = mesh_.shape().coord_of(mesh_.device_count() - 1);
  const MeshBufferView part = buffer.at(MeshRange::at(last));
  EXPECT_EQ(part.mesh().device_count(), 1);
  EXPECT_EQ(part.address(), buffer.address());
  queue_.enqueue_fill(part, {std::byte{2}});
  const auto all = read_all(buffer);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i], i + 4 < all.size() ? 1 : 2) << i;
  }
}

TEST_P(MeshBufferTest, AStaleViewNeverTouchesTheNextOwnersBytes) {
  std::optional<MeshBuffer> old = allocate(64, "old");
  const MeshBufferView stale = old->slice(8, 8);
  const MeshBufferView ended = old->slice(0, 8);
  const DeviceAddress address = old->address();
  const std::uint64_t generation = old->generation();
  old->deallocate();
  queue_.finish();
  const MeshBuffer next = allocate(64, "next");
  ASSERT_EQ(next.address(), address) << "the range is used again";
  EXPECT_NE(next.generation(), generation);
  queue_.enqueue_fill(next, {std::byte{7}});
  std::byte byte{};
  const ShardRead read = {.coord = mesh_.shape().coord_of(0),
                          .host = MutableHostBytes::borrow(std::span(&byte, 1), nullptr),
                          .region = rows(1, 1)};
  for (const std::string& text :
       {complaint([&] { queue_.enqueue_fill(stale, {std::byte{1}}); }),
        complaint([&] { queue_.enqueue_write_replicated(stale, &byte, 1, nullptr); }),
        complaint([&] {
          queue_.enqueue_read(stale, {&read, 1});
        }),
        complaint([&] { queue_.enqueue_copy(stale, next.slice(0, 8)); }),
        complaint([&] { queue_.enqueue_copy(next.slice(0, 8), stale); }),
        complaint([&] { (void)stale.slice(0, 1); }), complaint([&] { (void)stale.reserve(); }),
        complaint([&] { old->deallocate(); })}) {
    EXPECT_TRUE(text.starts_with("deallocated: buffer \"old\" was freed at ")) << text;
  }
  old.reset();  // a second end does nothing
  EXPECT_EQ(read_all(next),
            std::vector<std::uint8_t>(static_cast<std::size_t>(64 * mesh_.device_count()), 7));
  EXPECT_TRUE(next.is_allocated());
}

TEST_P(MeshBufferTest, AViewWhoseOwnerEndedSaysSo) {
  std::optional<MeshBuffer> owner = allocate(64, "short");
  const MeshBufferView view = *owner;
  owner.reset();
  EXPECT_FALSE(view.is_allocated());
  EXPECT_EQ(complaint([&] { (void)view.address(); }),
            "deallocated: buffer \"short\" was freed when its owner ended: allocate it again, or "
            "keep it longer");
}

TEST_P(MeshBufferTest, AReservationKeepsTheRangeFromOthers) {
  std::optional<MeshBuffer> buffer = allocate(600 << 10, "replayed");
  std::shared_ptr<const void> first = buffer->reserve();
  std::shared_ptr<const void> second = buffer->slice(0, 10).reserve();
  buffer.reset();
  EXPECT_THROW(allocate(600 << 10), Error);
  first.reset();
  EXPECT_THROW(allocate(600 << 10), Error);
  second.reset();
  EXPECT_NO_THROW(allocate(600 << 10));
}

TEST_P(MeshBufferTest, EveryOtherFreedThenHalfAskedShowsTheLargestHole) {
  std::vector<MeshBuffer> buffers;
  for (int i = 0; i < 16; ++i) {
    buffers.push_back(allocate(64 << 10, "piece"));
  }
  for (std::size_t i = 0; i < buffers.size(); i += 2) {
    buffers[i].deallocate();
  }
  EXPECT_EQ(complaint([&] { allocate(512 << 10, "half"); }),
            "out_of_memory: asked 512 KiB of dram for \"half\": 512 KiB of 1 MiB are free, the "
            "largest hole has 64 KiB; largest holders: \"piece\" 512 KiB in 8");
  EXPECT_NO_THROW(allocate(64 << 10));
}

TEST_P(MeshBufferTest, ASmallBufferDoesNotSpoilALargeHole) {
  MeshBuffer large = allocate(16 << 10);
  const MeshBuffer wall = allocate(64);
  MeshBuffer small = allocate(8 << 10);
  const MeshBuffer end = allocate(64);
  const DeviceAddress hole = small.address();
  large.deallocate();
  small.deallocate();
  queue_.finish();
  const MeshBuffer next = allocate(8 << 10);
  EXPECT_EQ(next.address(), hole);
}

TEST_P(MeshBufferTest, TinyRangesThatStayStrandNoLargeOnes) {
  std::vector<MeshBuffer> tiny;
  for (int round = 0; round < 12; ++round) {
    const MeshBuffer work = MeshBuffer::allocate(
        mesh_, {.bytes_per_device = 200 << 10, .label = "work", .temporary = true});
    tiny.push_back(allocate(64, "tiny"));
    queue_.enqueue_fill(work, {std::byte{1}});
  }
  mesh_.core().drain();
  EXPECT_NO_THROW(allocate((1 << 20) - 12 * 64, "all that is left"));
}

TEST_P(MeshBufferTest, AFailureAtAnyStepLeavesTheMeshUsableAndNothingHeld) {
  constexpr int kBuffers = 5;
  for (int nth = 1; nth <= kBuffers; ++nth) {
    MeshOptions options = GetParam().options;
    const auto counts = std::make_shared<AllocationStatistics>();
    options.decorate_allocator = [&](Space space, std::unique_ptr<Allocator> inner) {
      if (space == Space::dram) {
        inner = std::make_unique<FailingAllocator>(std::move(inner), nth);
        inner = std::make_unique<StatisticsAllocator>(std::move(inner), counts);
      }
      return inner;
    };
    const Mesh mesh = Mesh::open(options);
    const auto work = [&] {
      std::vector<MeshBuffer> buffers;
      for (int i = 0; i < kBuffers; ++i) {
        buffers.push_back(MeshBuffer::allocate(mesh, {.bytes_per_device = 1000}));
        mesh.queue(i % 2).enqueue_fill(buffers.back(), {std::byte{1}});
      }
    };
    EXPECT_TRUE(complaint(work).starts_with("out_of_memory: ")) << "at " << nth;
    mesh.core().drain();
    EXPECT_EQ(memory_report(mesh).spaces.at(0).used_bytes, 0) << "at " << nth;
    EXPECT_EQ(counts->live_count(), 0);
    EXPECT_EQ(counts->refusals, 2) << "it is asked again before it fails";
    EXPECT_EQ(complaint(work), "nothing") << "the mesh stays usable";
  }
}

}  // namespace
}  // namespace tilemesh
