#include "tilemesh/mesh/mesh.hpp"

#include <set>

#include "tilemesh/device/backend.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

class MeshOpen : public MeshTest {};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshOpen, testing::ValuesIn(mesh_cases()), mesh_case_name);

TEST_P(MeshOpen, HasTheDevicesOfItsShape) {
  EXPECT_EQ(mesh_.device_count(), GetParam().options.shape.device_count());
  EXPECT_EQ(mesh_.backend(), GetParam().options.backend);
  std::set<std::string> names;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    names.insert(mesh_.device(i).info().name);
  }
  EXPECT_EQ(std::ssize(names), mesh_.device_count());
  EXPECT_THROW((void)mesh_.device(-1), Error);
  EXPECT_THROW((void)mesh_.device(mesh_.device_count()), Error);
}

TEST_P(MeshOpen, HandlesAreEqualIfTheyAreOfTheSameDevices) {
  const Mesh copy = mesh_;
  const Mesh other = Mesh::open(GetParam().options);
  EXPECT_EQ(copy, mesh_);
  EXPECT_FALSE(other == mesh_);
}

TEST_P(MeshOpen, QueuesAreMadeOnceAndCountFromZero) {
  EXPECT_EQ(&mesh_.queue(0), &mesh_.queue());
  EXPECT_EQ(&mesh_.queue(3), &mesh_.queue(3));
  EXPECT_NE(&mesh_.queue(3), &mesh_.queue(1));
  EXPECT_THROW((void)mesh_.queue(-1), Error);
}

TEST_P(MeshOpen, ErrorsNameTheCoordinate) {
  const int last = mesh_.device_count() - 1;
  const Event failed = queue_.enqueue_host(
      [last](int index) {
        if (index == last) {
          throw std::runtime_error("no luck");
        }
      },
      {.label = "throw"});
  try {
    failed.wait();
    FAIL() << "the command didn't fail";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "throw: device " + to_string(mesh_.shape().coord_of(last)) + ": no luck");
  }
}

TEST(Mesh, RefusesWhatCannotBe) {
  const auto code = [](const MeshOptions& options) {
    try {
      Mesh::open(options);
      return std::string("opened");
    } catch (const Error& error) {
      return std::string(to_string(error.code()));
    }
  };
  EXPECT_EQ(code({.backend = "abacus"}), "not_found");
  EXPECT_EQ(code({.threads_per_device = -1}), "invalid_argument");
  EXPECT_EQ(code({.dram_bytes = -1}), "invalid_argument");
  EXPECT_EQ(code({.l1_bytes = -1}), "invalid_argument");
  EXPECT_EQ(code({.threads_per_device = 1000}), "mismatch");
  EXPECT_EQ(code({.dram_bytes = std::int64_t{1} << 60}), "mismatch");
}

TEST(Mesh, AnUnknownBackendIsToldTheNamesThereAre) {
  try {
    find_backend("abacus");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu, null"), std::string::npos) << error.what();
  }
}

TEST(Mesh, ByDefaultItIsOneDeviceOfAllCores) {
  const Mesh mesh = Mesh::open();
  const TargetInfo machine = find_backend("cpu").query(1, 0);
  EXPECT_EQ(mesh.device_count(), 1);
  EXPECT_EQ(mesh.device(0).info().threads, machine.cores);
  EXPECT_EQ(mesh.device(0).info().dram_bytes, machine.dram_bytes);
  EXPECT_EQ(mesh.device(0).info().l1_bytes, machine.l1_bytes);
  EXPECT_LT(machine.dram_bytes, machine.memory_bytes);
}

TEST(Mesh, TwoMeshesInOneProcessShareNothing) {
  const Mesh a = Mesh::open({.shape = {1, 2}, .dram_bytes = 1 << 20});
  const Mesh b = Mesh::open({.shape = {1, 2}, .dram_bytes = 1 << 20});
  const auto buffer = MeshBuffer::allocate(a, {.bytes_per_device = 1000});
  EXPECT_GT(memory_report(a).spaces.at(0).used_bytes, 0);
  EXPECT_EQ(memory_report(b).spaces.at(0).used_bytes, 0);
  EXPECT_THROW(b.queue().enqueue_fill(buffer, {std::byte{1}}), Error);
  const Event on_a = a.queue().enqueue_host([](int) {});
  const Event on_b = b.queue().enqueue_host([](int) {}, {.after = {on_a}});
  EXPECT_NO_THROW(on_b.wait());
  EXPECT_TRUE(on_a.ready());
}

TEST(Mesh, SixtyFourDevicesOnAnyNumberOfCores) {
  const Mesh mesh = Mesh::open({.shape = {8, 8}, .dram_bytes = 1 << 16, .l1_bytes = 1 << 16});
  auto buffer = MeshBuffer::allocate(mesh, {.bytes_per_device = 64});
  std::vector<std::byte> host(64, std::byte{7});
  std::vector<int> runs(64, 0);
  for (int round = 0; round < 50; ++round) {
    mesh.queue().enqueue_write_replicated(buffer, host.data(), 64, nullptr);
    mesh.queue().enqueue_host([&runs](int index) { ++runs[static_cast<std::size_t>(index)]; });
  }
  mesh.queue().finish();
  EXPECT_EQ(runs, std::vector<int>(64, 50));
}

TEST(MeshCore, ConstantsAreSharedByContentAndNotKeptAlive) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .dram_bytes = 1 << 20});
  const std::vector<std::byte> content(100, std::byte{3});
  const std::vector<std::byte> other(100, std::byte{4});
  const detail::ConstantKey key{.hash = 42, .bytes = 100, .space = Space::dram};
  detail::MeshCore& core = mesh.core();
  EXPECT_EQ(core.find_constant(mesh, key, content), nullptr);
  auto buffer = std::make_shared<MeshBuffer>(
      MeshBuffer::allocate(mesh, {.bytes_per_device = 100, .label = "constant"}));
  mesh.queue().enqueue_write_replicated(*buffer, content.data(), 100, nullptr);
  core.keep_constant(key, buffer);
  EXPECT_EQ(core.find_constant(mesh, key, content), buffer);
  EXPECT_EQ(core.find_constant(mesh, key, other), nullptr) << "equal hashes, other bytes";
  buffer.reset();
  EXPECT_EQ(core.find_constant(mesh, key, content), nullptr);
}

#ifndef NDEBUG
TEST(MeshCore, SaysAtCloseWhatIsStillHeld) {
  testing::internal::CaptureStderr();
  { Mesh::open({.dram_bytes = 1 << 20}); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  {
    const Mesh mesh = Mesh::open({.dram_bytes = 1 << 20});
    const auto buffer = MeshBuffer::allocate(mesh, {.bytes_per_device = 100, .label = "kept"});
    mesh.core().ledger().allocate(Space::dram, 4096, 64, Lifetime::lasting, "forgotten");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "leak: 4 KiB of dram are held as the devices close\n"
            "         4 KiB in    1  forgotten\n");
}
#endif

}  // namespace
}  // namespace tilemesh
