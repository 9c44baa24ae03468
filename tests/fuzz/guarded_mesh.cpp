#include "guarded_mesh.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/memory/allocator_adaptors.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kGrain = 64;  // what the mesh rounds sizes to

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Where a space lies on each device; empty until the mesh is open.
using Bases = std::vector<std::byte*>;

class GuardingAllocator final : public AllocatorAdaptor {
 public:
  GuardingAllocator(std::unique_ptr<Allocator> inner, std::shared_ptr<const Bases> bases)
      : AllocatorAdaptor(std::move(inner)), bases_(std::move(bases)) {}

  std::optional<ByteRange> take(const AllocationRequest& request) override {
    if (request.bytes > arena_bytes() || request.alignment > kGrain) {
      return AllocatorAdaptor::take(request);
    }
    const std::int64_t bytes = round_up(request.bytes, kGrain);
    AllocationRequest wider = request;
    wider.bytes = round_up(bytes, kPage) + 2 * kPage;
    wider.alignment = kPage;
    const std::optional<ByteRange> outer = AllocatorAdaptor::take(wider);
    if (!outer) return std::nullopt;
    protect(request.devices, *outer, PROT_NONE);
    const ByteRange inner{outer->offset + outer->bytes - kPage - bytes, bytes};
    outer_[{inner.offset, inner.bytes}].push_back(*outer);
    return inner;
  }

  void give(const std::vector<int>* devices, const ByteRange& range) override {
    const auto found = outer_.find({range.offset, range.bytes});
    if (found == outer_.end()) {
      AllocatorAdaptor::give(devices, range);
      return;
    }
    const ByteRange outer = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) outer_.erase(found);
    protect(devices, outer, PROT_READ | PROT_WRITE);
    AllocatorAdaptor::give(devices, outer);
  }

 private:
  /// The first and the last page of the range.
  void protect(const std::vector<int>* devices, const ByteRange& range, int access) {
    for (std::size_t i = 0; i < bases_->size(); ++i) {
      const bool ours =
          devices == nullptr || std::ranges::find(*devices, static_cast<int>(i)) != devices->end();
      if (!ours) continue;
      std::byte* first = (*bases_)[i] + range.offset;
      TILEMESH_CHECK(::mprotect(first, kPage, access) == 0 &&
                         ::mprotect(first + range.bytes - kPage, kPage, access) == 0,
                     "a guard page can't be set");
    }
  }

  std::shared_ptr<const Bases> bases_;
  // By the range that was handed out; on disjoint devices there may be several at one place.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<ByteRange>> outer_;
};

}  // namespace

Mesh open_guarded(const MeshShape& shape) {
  const auto dram = std::make_shared<Bases>();
  const auto l1 = std::make_shared<Bases>();
  Mesh mesh = Mesh::open({.shape = shape,
                          .threads_per_device = 1,
                          .dram_bytes = kGuardedDramBytes,
                          .l1_bytes = kGuardedL1Bytes,
                          .collective_timeout = std::chrono::seconds(5),
                          .shortage_timeout = std::chrono::seconds(2),
                          .decorate_allocator = [&](Space space, std::unique_ptr<Allocator> inner) {
                            return std::make_unique<GuardingAllocator>(
                                std::move(inner), space == Space::l1 ? l1 : dram);
                          }});
  for (int i = 0; i < mesh.device_count(); ++i) {
    dram->push_back(mesh.device(i).map(Space::dram));
    l1->push_back(mesh.device(i).map(Space::l1));
  }
  return mesh;
}

}  // namespace tilemesh::fuzz
