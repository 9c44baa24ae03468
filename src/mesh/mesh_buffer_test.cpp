#include "tilemesh/mesh/mesh_buffer.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

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
  const auto complaint = [](const auto& use) {
    try {
      use();
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return std::string("nothing");
  };
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

TEST_P(MeshBufferTest, TemporariesGrowFromTheOtherEnd) {
  const MeshBuffer lasting = allocate(64);
  const MeshBuffer temporary =
      MeshBuffer::allocate(mesh_, {.bytes_per_device = 64, .temporary = true});
  EXPECT_LT(lasting.address().offset, 1 << 10);
  EXPECT_GT(temporary.address().offset, 900 << 10);
}

}  // namespace
}  // namespace tilemesh
