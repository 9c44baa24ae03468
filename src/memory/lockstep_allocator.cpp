#include "tilemesh/memory/lockstep_allocator.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "free_list.hpp"
#include "live_ranges.hpp"

namespace tilemesh {
namespace {

using detail::FreeList;

constexpr std::uint32_t kAllDevices = 0;  // the number of the set of all devices
constexpr std::int64_t kGranule = 64;     // a cache line: smaller leftovers would only cost time

/// Devices in equal state.
struct DeviceClass {
  FreeList free;
  std::vector<int> devices;  // sorted
  std::int64_t peak_bytes = 0;

  explicit DeviceClass(std::int64_t arena_bytes) : free(arena_bytes) {}
};

void check_request(std::int64_t bytes, std::int64_t alignment) {
  if (bytes < 0 || alignment < 1 || (alignment & (alignment - 1)) != 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("can't allocate {} bytes aligned to {}: sizes are 0 or more, alignments "
                    "powers of two",
                    bytes, alignment));
  }
}

std::int64_t size_to_take(std::int64_t bytes, std::int64_t alignment) {
  const std::int64_t mask = std::min(alignment, kGranule) - 1;  // of a power of two
  return bytes == 0 ? alignment : (bytes + mask) & ~mask;
}

/// The parts that two lists of holes have in common; all in order of offset.
template <class Holes>
void intersect(const std::vector<ByteRange>& a, const Holes& b, std::vector<ByteRange>& common) {
  common.clear();
  auto right = b.begin();
  for (auto left = a.begin(); left != a.end() && right != b.end();) {
    const std::int64_t begin = std::max(left->offset, right->offset);
    const std::int64_t left_end = left->offset + left->bytes;
    const std::int64_t right_end = right->offset + right->bytes;
    const std::int64_t end = std::min(left_end, right_end);
    if (begin < end) common.push_back({begin, end - begin});
    if (left_end < right_end) {
      ++left;
    } else {
      ++right;
    }
  }
}

}  // namespace

struct LockstepAllocator::State {
  std::int64_t arena_bytes;
  // The first class_count are in use; the others wait with the room of their arrays.
  std::vector<DeviceClass> classes;
  std::size_t class_count = 1;
  std::vector<std::size_t> class_of;          // by device
  std::vector<std::int64_t> past_peak_bytes;  // by device, from before it joined its class
  detail::LiveRanges live;
  std::vector<std::int64_t> temporaries;  // offsets of the live ones, from the highest
  std::map<std::vector<int>, std::uint32_t> set_numbers;
  // Working room, kept so that it is allocated once.
  std::vector<std::size_t> chosen;
  std::vector<std::size_t> members_in_set;
  std::vector<ByteRange> common;
  std::vector<ByteRange> narrowed;

  State(int device_count, std::int64_t arena);

  const DeviceClass& class_at(int device) const {
    check_device(device);
    return classes[class_of[static_cast<std::size_t>(device)]];
  }
  std::int64_t used_bytes(const DeviceClass& c) const { return arena_bytes - c.free.free_bytes(); }

  void check_device(int device) const;
  void check_set(const std::vector<int>& devices) const;
  std::uint32_t number_of(const std::vector<int>& devices);

  void choose_all();
  void choose(const std::vector<int>& devices);
  std::size_t split(std::size_t from, const std::vector<int>& devices);
  void merge_chosen();
  void merge(std::size_t into, std::size_t from);

  std::optional<std::int64_t> find(std::int64_t bytes, std::int64_t alignment, Lifetime lifetime);
  std::optional<std::int64_t> find_below(std::int64_t below, std::int64_t bytes,
                                         std::int64_t alignment, Lifetime lifetime);
  std::optional<ByteRange> take(std::uint32_t set, std::int64_t bytes, std::int64_t alignment,
                                Lifetime lifetime);
  void forget(std::uint32_t set, const ByteRange& range);
  void give(const ByteRange& range);
};

LockstepAllocator::State::State(int device_count, std::int64_t arena) : arena_bytes(arena) {
  if (device_count < 1 || arena < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an allocator wants 1 or more devices and 0 or more bytes, got {} "
                            "devices of {} bytes",
                            device_count, arena));
  }
  const auto count = static_cast<std::size_t>(device_count);
  classes.emplace_back(arena);
  classes[0].devices.resize(count);
  std::iota(classes[0].devices.begin(), classes[0].devices.end(), 0);
  class_of.resize(count);
  past_peak_bytes.resize(count);
  set_numbers.emplace(classes[0].devices, kAllDevices);
}

void LockstepAllocator::State::check_device(int device) const {
  TILEMESH_CHECK(device >= 0 && static_cast<std::size_t>(device) < class_of.size(),
                 fmt::format("device {} of {}", device, class_of.size()));
}

void LockstepAllocator::State::check_set(const std::vector<int>& devices) const {
  TILEMESH_CHECK(!devices.empty(), "a set of no devices");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    check_device(devices[i]);
    TILEMESH_CHECK(i == 0 || devices[i - 1] < devices[i], "a device set is not sorted and unique");
  }
}

std::uint32_t LockstepAllocator::State::number_of(const std::vector<int>& devices) {
  const auto found = set_numbers.find(devices);
  if (found != set_numbers.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(set_numbers.size());
  set_numbers.emplace(devices, number);
  return number;
}

void LockstepAllocator::State::choose_all() {
  chosen.clear();
  for (std::size_t i = 0; i < class_count; ++i)
    chosen.push_back(i);
}

/// Chooses the classes that together are `devices`, after splitting those that the set cuts.
void LockstepAllocator::State::choose(const std::vector<int>& devices) {
  members_in_set.assign(class_count, 0);
  for (const int device : devices)
    ++members_in_set[class_of[static_cast<std::size_t>(device)]];
  chosen.clear();
  const std::size_t before = class_count;
  for (std::size_t i = 0; i < before; ++i) {
    if (members_in_set[i] == 0) continue;
    const bool whole = members_in_set[i] == classes[i].devices.size();
    chosen.push_back(whole ? i : split(i, devices));
  }
}

/// Moves what `from` and `devices` have in common to a new class and returns its index.
std::size_t LockstepAllocator::State::split(std::size_t from, const std::vector<int>& devices) {
  if (class_count == classes.size()) classes.emplace_back(arena_bytes);
  const std::size_t to = class_count++;
  DeviceClass& old = classes[from];
  DeviceClass& made = classes[to];
  made.free = old.free;
  made.peak_bytes = old.peak_bytes;
  made.devices.clear();
  const auto moves = [&](int device) {
    return std::binary_search(devices.begin(), devices.end(), device);
  };
  std::copy_if(old.devices.begin(), old.devices.end(), std::back_inserter(made.devices), moves);
  std::erase_if(old.devices, moves);
  for (const int device : made.devices)
    class_of[static_cast<std::size_t>(device)] = to;
  return to;
}

/// Joins chosen classes with others that they have become equal to. Two chosen ones were different
/// and have changed alike, so they still differ; the same holds for two that weren't chosen.
void LockstepAllocator::State::merge_chosen() {
  if (class_count == 1 || chosen.size() == class_count) return;
  // From the last, since a merge moves the last class to the place that becomes free.
  std::sort(chosen.begin(), chosen.end());
  for (std::size_t k = chosen.size(); k-- > 0;) {
    const std::size_t c = chosen[k];
    for (std::size_t other = 0; other < class_count; ++other) {
      if (other == c || !(classes[other].free == classes[c].free)) continue;
      merge(other, c);
      break;
    }
  }
}

void LockstepAllocator::State::merge(std::size_t into, std::size_t from) {
  DeviceClass& kept = classes[into];
  DeviceClass& gone = classes[from];
  // Their pasts differ; from now on they share one.
  for (const DeviceClass* c : {&kept, &gone}) {
    for (const int device : c->devices) {
      std::int64_t& past = past_peak_bytes[static_cast<std::size_t>(device)];
      past = std::max(past, c->peak_bytes);
    }
  }
  kept.peak_bytes = used_bytes(kept);
  kept.devices.insert(kept.devices.end(), gone.devices.begin(), gone.devices.end());
  std::sort(kept.devices.begin(), kept.devices.end());  // a merge would ask for heap memory
  for (const int device : gone.devices)
    class_of[static_cast<std::size_t>(device)] = into;
  const std::size_t last = --class_count;
  if (from == last) return;
  std::swap(classes[from], classes[last]);
  for (const int device : classes[from].devices)
    class_of[static_cast<std::size_t>(device)] = from;
}

/// An offset that is free in every chosen class. A lasting range among temporary ones would cut the
/// hole that they leave, so it goes there only if there is no room below them.
std::optional<std::int64_t> LockstepAllocator::State::find(std::int64_t bytes,
                                                           std::int64_t alignment,
                                                           Lifetime lifetime) {
  if (lifetime == Lifetime::lasting && !temporaries.empty()) {
    if (const auto low = find_below(temporaries.back(), bytes, alignment, lifetime)) return low;
  }
  return find_below(detail::kAnywhere, bytes, alignment, lifetime);
}

std::optional<std::int64_t> LockstepAllocator::State::find_below(std::int64_t below,
                                                                 std::int64_t bytes,
                                                                 std::int64_t alignment,
                                                                 Lifetime lifetime) {
  if (chosen.size() == 1) return classes[chosen[0]].free.find(bytes, alignment, lifetime, below);
  const auto& first = classes[chosen[0]].free.holes();
  common.assign(first.begin(), first.end());
  for (std::size_t k = 1; k < chosen.size(); ++k) {
    intersect(common, classes[chosen[k]].free.holes(), narrowed);
    common.swap(narrowed);
  }
  return detail::best_fit(common, bytes, alignment, lifetime, below);
}

std::optional<ByteRange> LockstepAllocator::State::take(std::uint32_t set, std::int64_t bytes,
                                                        std::int64_t alignment, Lifetime lifetime) {
  const auto offset = find(bytes, alignment, lifetime);
  if (!offset) return std::nullopt;
  const ByteRange range{*offset, bytes};
  live.insert(set, range, lifetime);
  if (lifetime == Lifetime::temporary) {
    temporaries.insert(std::ranges::upper_bound(temporaries, *offset, std::greater()), *offset);
  }
  for (const std::size_t c : chosen) {
    classes[c].free.take(range);
    classes[c].peak_bytes = std::max(classes[c].peak_bytes, used_bytes(classes[c]));
  }
  return range;
}

void LockstepAllocator::State::give(const ByteRange& range) {
  for (const std::size_t c : chosen)
    classes[c].free.give(range);
}

void LockstepAllocator::State::forget(std::uint32_t set, const ByteRange& range) {
  const auto lifetime = live.erase(set, range);
  TILEMESH_CHECK(lifetime.has_value(),
                 fmt::format("{} bytes at offset {} were not allocated on these devices, or are "
                             "freed twice",
                             range.bytes, range.offset));
  if (lifetime == Lifetime::temporary) {
    temporaries.erase(std::ranges::lower_bound(temporaries, range.offset, std::greater()));
  }
}

LockstepAllocator::LockstepAllocator(int device_count, std::int64_t arena_bytes)
    : state_(std::make_unique<State>(device_count, arena_bytes)) {}
LockstepAllocator::~LockstepAllocator() = default;
LockstepAllocator::LockstepAllocator(LockstepAllocator&&) noexcept = default;
LockstepAllocator& LockstepAllocator::operator=(LockstepAllocator&&) noexcept = default;

std::optional<ByteRange> LockstepAllocator::allocate(std::int64_t bytes, std::int64_t alignment,
                                                     Lifetime lifetime) {
  check_request(bytes, alignment);
  if (bytes > state_->arena_bytes) return std::nullopt;
  state_->choose_all();
  return state_->take(kAllDevices, size_to_take(bytes, alignment), alignment, lifetime);
}

std::optional<ByteRange> LockstepAllocator::allocate_on(const std::vector<int>& devices,
                                                        std::int64_t bytes, std::int64_t alignment,
                                                        Lifetime lifetime) {
  check_request(bytes, alignment);
  state_->check_set(devices);
  if (bytes > state_->arena_bytes) return std::nullopt;
  const std::uint32_t set = state_->number_of(devices);
  state_->choose(devices);
  const auto range = state_->take(set, size_to_take(bytes, alignment), alignment, lifetime);
  state_->merge_chosen();  // also what was split in vain
  return range;
}

void LockstepAllocator::free(const ByteRange& range) {
  state_->forget(kAllDevices, range);
  state_->choose_all();
  state_->give(range);
}

void LockstepAllocator::free_on(const std::vector<int>& devices, const ByteRange& range) {
  state_->check_set(devices);
  state_->forget(state_->number_of(devices), range);
  state_->choose(devices);
  state_->give(range);
  state_->merge_chosen();
}

std::int64_t LockstepAllocator::arena_bytes() const {
  return state_->arena_bytes;
}

std::int64_t LockstepAllocator::used_bytes(int device) const {
  return state_->used_bytes(state_->class_at(device));
}

std::int64_t LockstepAllocator::peak_bytes(int device) const {
  const std::int64_t peak = state_->class_at(device).peak_bytes;
  return std::max(peak, state_->past_peak_bytes[static_cast<std::size_t>(device)]);
}

std::int64_t LockstepAllocator::largest_hole_bytes(int device) const {
  return state_->class_at(device).free.largest_bytes();
}

std::optional<ByteRange> LockstepAllocator::take(const AllocationRequest& request) {
  return request.devices == nullptr
             ? allocate(request.bytes, request.alignment, request.lifetime)
             : allocate_on(*request.devices, request.bytes, request.alignment, request.lifetime);
}

void LockstepAllocator::give(const std::vector<int>* devices, const ByteRange& range) {
  if (devices == nullptr) {
    free(range);
  } else {
    free_on(*devices, range);
  }
}

std::int64_t LockstepAllocator::largest_hole_bytes(const std::vector<int>* devices) const {
  if (devices != nullptr) state_->check_set(*devices);
  std::vector<ByteRange> holes = {{0, state_->arena_bytes}};
  std::vector<ByteRange> narrower;
  std::vector<bool> seen(state_->class_count);
  const std::size_t count = devices == nullptr ? state_->class_of.size() : devices->size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t device = devices == nullptr ? i : static_cast<std::size_t>((*devices)[i]);
    const std::size_t c = state_->class_of[device];
    if (seen[c]) continue;
    seen[c] = true;
    intersect(holes, state_->classes[c].free.holes(), narrower);
    holes.swap(narrower);
  }
  std::int64_t largest = 0;
  for (const ByteRange& hole : holes)
    largest = std::max(largest, hole.bytes);
  return largest;
}

int LockstepAllocator::device_count() const {
  return static_cast<int>(state_->class_of.size());
}

int LockstepAllocator::class_count() const {
  return static_cast<int>(state_->class_count);
}

}  // namespace tilemesh
