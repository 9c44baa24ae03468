#include "mesh/mesh_core.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/device/worker_scope.hpp"

namespace tilemesh::detail {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;  // counters order nothing

std::int64_t smallest(const std::vector<std::unique_ptr<Device>>& devices,
                      std::int64_t DeviceInfo::*bytes) {
  std::int64_t least = devices.front()->info().*bytes;
  for (const auto& device : devices) {
    least = std::min(least, device->info().*bytes);
  }
  return least;
}

std::unique_ptr<MeshQueue> make_queue(MeshCore& core) {
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  for (const auto& device : core.devices()) {
    queues.push_back(device->create_queue());
  }
  return std::make_unique<MeshQueue>(core, std::move(queues));
}

}  // namespace

MeshCore::MeshCore(MeshShape shape, std::string backend,
                   std::vector<std::unique_ptr<Device>> devices)
    : shape_(std::move(shape)),
      backend_(std::move(backend)),
      devices_(std::move(devices)),
      ledger_(static_cast<int>(devices_.size()), smallest(devices_, &DeviceInfo::dram_bytes),
              smallest(devices_, &DeviceInfo::l1_bytes)) {
  first_queue_ = (queues_[0] = make_queue(*this)).get();
}

MeshCore::~MeshCore() = default;

void MeshCore::count_upload(std::int64_t bytes, std::int64_t transfers) {
  uploaded_bytes_.fetch_add(bytes, kRelaxed);
  uploads_.fetch_add(transfers, kRelaxed);
}

void MeshCore::count_download(std::int64_t bytes, std::int64_t transfers) {
  downloaded_bytes_.fetch_add(bytes, kRelaxed);
  downloads_.fetch_add(transfers, kRelaxed);
}

void MeshCore::count_conversion(std::int64_t bytes) {
  conversions_.fetch_add(1, kRelaxed);
  conversion_bytes_.fetch_add(bytes, kRelaxed);
}

void MeshCore::count_program() {
  programs_run_.fetch_add(1, kRelaxed);
}

Counters MeshCore::counters() const {
  return {.host_to_device_bytes = uploaded_bytes_.load(kRelaxed),
          .device_to_host_bytes = downloaded_bytes_.load(kRelaxed),
          .host_to_device_transfers = uploads_.load(kRelaxed),
          .device_to_host_transfers = downloads_.load(kRelaxed),
          .conversions = conversions_.load(kRelaxed),
          .conversion_bytes = conversion_bytes_.load(kRelaxed),
          .programs_run = programs_run_.load(kRelaxed)};
}

std::shared_ptr<MeshBuffer> MeshCore::find_constant(const ConstantKey& key,
                                                    std::span<const std::byte> bytes) {
  std::vector<std::shared_ptr<MeshBuffer>> found;
  {
    const std::lock_guard lock(constants_mutex_);
    const auto [first, last] = constants_.equal_range(key);
    for (auto entry = first; entry != last; ++entry) {
      if (auto buffer = entry->second.lock()) {
        found.push_back(std::move(buffer));
      }
    }
  }
  const std::byte* const arena = devices_.front()->map(key.space);
  if (found.empty() || arena == nullptr || on_worker_thread()) {
    return nullptr;
  }
  first_queue_->finish();
  for (const auto& buffer : found) {
    if (buffer->is_allocated() && std::cmp_equal(buffer->bytes_per_device(), bytes.size()) &&
        std::ranges::equal(bytes, std::span(arena + buffer->address().offset, bytes.size()))) {
      return buffer;
    }
  }
  return nullptr;
}

void MeshCore::keep_constant(const ConstantKey& key, const std::shared_ptr<MeshBuffer>& buffer) {
  const std::lock_guard lock(constants_mutex_);
  std::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
  constants_.emplace(key, buffer);
}

MeshQueue& MeshCore::queue(int index) {
  if (index == 0) {
    return *first_queue_;
  }
  if (index < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no queue {}: they count from 0", index));
  }
  const std::lock_guard lock(queues_mutex_);
  std::unique_ptr<MeshQueue>& queue = queues_[index];
  if (queue == nullptr) {
    queue = make_queue(*this);
  }
  return *queue;
}

std::vector<MeshQueue*> MeshCore::all_queues() const {
  const std::lock_guard lock(queues_mutex_);
  std::vector<MeshQueue*> all;
  for (const auto& [index, queue] : queues_) {
    if (queue != nullptr) {
      all.push_back(queue.get());
    }
  }
  return all;
}

bool MeshCore::idle() const {
  const std::lock_guard lock(queues_mutex_);
  return std::ranges::all_of(
      queues_, [](const auto& entry) { return entry.second == nullptr || entry.second->idle(); });
}

Event MeshCore::mark_for_free() {
  std::uint64_t work = 0;
  for (const MeshQueue* queue : all_queues()) {
    work += queue->work_count();
  }
  {
    const std::lock_guard lock(frees_mutex_);
    if (work == last_mark_work_ && !last_mark_.ready()) {
      return last_mark_;
    }
  }
  std::vector<Event> events;
  for (MeshQueue* queue : all_queues()) {
    if (Event mark = queue->record(); !mark.ready()) {
      events.push_back(std::move(mark));
    }
  }
  Event all = events.size() == 1 ? std::move(events.front()) : Event::when_all(events);
  const std::lock_guard lock(frees_mutex_);
  last_mark_ = all;
  last_mark_work_ = work;
  return all;
}

void MeshCore::free_in_order(Space space, const ByteRange& range,
                             const std::string& label) noexcept {
  try {
    if (!idle()) {
      const Event after = mark_for_free();
      {
        const std::lock_guard lock(frees_mutex_);
        frees_.push_back({after, space, range, label});
      }
      after.then([self = weak_from_this()](const Status&) {
        if (const auto core = self.lock()) {
          core->free_what_is_due();
        }
      });
      return;
    }
  } catch (...) {
    return;  // no host memory for the marker: the range stays taken, which harms nobody else
  }
  ledger_.free(space, range, label);
}

void MeshCore::free_what_is_due() noexcept {
  const std::lock_guard lock(frees_mutex_);
  std::erase_if(frees_, [this](const PendingFree& free) {
    if (!free.after.ready()) {
      return false;
    }
    ledger_.free(free.space, free.range, free.label);
    return true;
  });
}

void MeshCore::drain() {
  if (on_worker_thread()) {
    return;
  }
  for (MeshQueue* queue : all_queues()) {
    queue->finish();
  }
  free_what_is_due();
}

}  // namespace tilemesh::detail
