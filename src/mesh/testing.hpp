#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/memory/allocator_adaptors.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"

namespace tilemesh {

/// A mesh that a test runs on.
struct MeshCase {
  std::string name;
  MeshOptions options;
};

inline void PrintTo(const MeshCase& mesh, std::ostream* out) {
  *out << mesh.name;
}

inline std::vector<MeshCase> mesh_cases() {
  constexpr std::int64_t kDram = 1 << 20;
  constexpr std::int64_t kL1 = 64 << 10;
  const auto options = [](MeshShape shape, const char* backend) {
    return MeshOptions{.shape = shape, .backend = backend, .dram_bytes = kDram, .l1_bytes = kL1};
  };
  return {{"null_1x2", options({1, 2}, "null")},
          {"cpu_1x1", options({1, 1}, "cpu")},
          {"cpu_1x2", options({1, 2}, "cpu")},
          {"cpu_2x4", options({2, 4}, "cpu")}};
}

inline std::string mesh_case_name(const testing::TestParamInfo<MeshCase>& info) {
  return info.param.name;
}

/// Takes the first four gigabytes for itself, and says nothing of it, so that whatever is allocated
/// has an offset that 32 bits can't hold.
class HighAllocator final : public AllocatorAdaptor {
 public:
  explicit HighAllocator(std::unique_ptr<Allocator> inner) : AllocatorAdaptor(std::move(inner)) {
    AllocatorAdaptor::take({.bytes = kTaken});
  }
  std::int64_t used_bytes(int device) const override {
    return AllocatorAdaptor::used_bytes(device) - kTaken;
  }

 private:
  static constexpr std::int64_t kTaken = std::int64_t{4} << 30;
};

/// An AllocatorDecorator for a mesh of more dram than that.
inline std::unique_ptr<Allocator> beyond_four_gigabytes(Space space,
                                                        std::unique_ptr<Allocator> inner) {
  return space == Space::dram ? std::make_unique<HighAllocator>(std::move(inner))
                              : std::move(inner);
}

class MeshTest : public testing::TestWithParam<MeshCase> {
 protected:
  Mesh mesh_ = Mesh::open(GetParam().options);
  MeshQueue& queue_ = mesh_.queue();

  MeshBuffer allocate(std::int64_t bytes, const std::string& label = "buffer") {
    return MeshBuffer::allocate(mesh_, {.bytes_per_device = bytes, .label = label});
  }
  std::int64_t used_bytes() const { return memory_report(mesh_).spaces.at(0).used_bytes; }

  /// The bytes of every device, one after the other.
  std::vector<std::uint8_t> read_all(const MeshBufferView& buffer) {
    const std::int64_t bytes = buffer.bytes_per_device();
    std::vector<std::uint8_t> all(static_cast<std::size_t>(bytes * mesh_.device_count()));
    std::vector<ShardRead> reads;
    for (int i = 0; i < mesh_.device_count(); ++i) {
      const auto part = std::span(all).subspan(static_cast<std::size_t>(i * bytes),
                                               static_cast<std::size_t>(bytes));
      reads.push_back(
          {.coord = mesh_.shape().coord_of(i), .host = MutableHostBytes::borrow(part, nullptr)});
    }
    queue_.enqueue_read(buffer, reads).wait();
    return all;
  }
};

}  // namespace tilemesh
