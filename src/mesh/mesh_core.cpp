#include "mesh/mesh_core.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/base/printable.hpp"
#include "tilemesh/device/capture_scope.hpp"
#include "tilemesh/device/local_communicator.hpp"
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

std::vector<int> view_key(const MeshShape& shape, const std::vector<int>& devices) {
  std::vector<int> key = {shape.axes()};
  key.insert(key.end(), shape.sizes().begin(), shape.sizes().end());
  key.insert(key.end(), devices.begin(), devices.end());
  return key;
}

}  // namespace

MeshCore::MeshCore(const MeshOptions& options, std::vector<std::unique_ptr<Device>> devices)
    : backend_(options.backend),
      collective_timeout_(options.collective_timeout),
      shortage_timeout_(options.shortage_timeout),
      devices_(std::move(devices)),
      ledger_(static_cast<int>(devices_.size()), smallest(devices_, &DeviceInfo::dram_bytes),
              smallest(devices_, &DeviceInfo::l1_bytes), options.decorate_allocator) {
  std::vector<int> all(devices_.size());
  std::iota(all.begin(), all.end(), 0);
  whole_ = &of_mine(view(options.shape, std::move(all)));
}

MeshCore::~MeshCore() {
#ifndef NDEBUG
  try {
    // The command that held the core last may not have completed its event yet.
    for (const PendingFree& free : frees_) {
      ledger_.free(free.space, free.range, free.label, allocator_devices(*free.view));
    }
    std::fputs(printable(leak_text(ledger_.report())).c_str(), stderr);
  } catch (...) {  // no host memory for the text: closing goes on without it
  }
#endif
}

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

void MeshCore::count_exchange(std::int64_t bytes) {
  exchanges_.fetch_add(1, kRelaxed);
  exchanged_bytes_.fetch_add(bytes, kRelaxed);
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
          .device_to_device_bytes = exchanged_bytes_.load(kRelaxed),
          .device_to_device_transfers = exchanges_.load(kRelaxed),
          .programs_run = programs_run_.load(kRelaxed)};
}

namespace {

/// Whether the buffer's bytes on the devices of the mesh are those of the constant.
bool holds_constant(const MeshBuffer& buffer, const Mesh& mesh, const ConstantKey& key,
                    std::span<const std::byte> bytes) {
  if (!buffer.is_allocated() || buffer.bytes_per_device() != key.bytes ||
      !(key.shards.empty() ? buffer.mesh().view().contains(mesh.view()) : buffer.mesh() == mesh)) {
    return false;
  }
  const auto size = static_cast<std::size_t>(key.bytes);
  const std::size_t devices = std::max<std::size_t>(key.shards.size(), 1);
  for (std::size_t i = 0; i < devices; ++i) {
    const std::size_t shard = key.shards.empty() ? 0 : static_cast<std::size_t>(key.shards[i]);
    const std::byte* const held =
        mesh.device(static_cast<int>(i)).map(key.space) + buffer.address().offset;
    if (!std::ranges::equal(bytes.subspan(shard * size, size), std::span(held, size))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<MeshBuffer> MeshCore::find_constant(const Mesh& mesh, const ConstantKey& key,
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
  if (found.empty() || mesh.device(0).map(key.space) == nullptr || on_worker_thread()) {
    return nullptr;
  }
  mesh.queue(0).finish();
  for (const auto& buffer : found) {
    if (holds_constant(*buffer, mesh, key, bytes)) {
      return buffer;
    }
  }
  return nullptr;
}

void MeshCore::keep_constant(const ConstantKey& key, const std::shared_ptr<MeshBuffer>& buffer) {
  const std::lock_guard lock(constants_mutex_);
  // Not for every constant: a program may have thousands.
  if (constants_.size() >= sweep_constants_at_) {
    std::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
    sweep_constants_at_ = 2 * constants_.size() + kFewConstants;
  }
  constants_.emplace(key, buffer);
}

const MeshView& MeshCore::view(const MeshShape& shape, std::vector<int> devices) {
  const std::lock_guard lock(queues_mutex_);
  std::unique_ptr<MeshView>& view = views_[view_key(shape, devices)];
  if (view == nullptr) {
    auto made = std::make_unique<MeshView>();
    made->shape = shape;
    made->sorted = devices;
    std::sort(made->sorted.begin(), made->sorted.end());
    made->devices = std::move(devices);
    made->whole = made->sorted.size() == devices_.size();
    made->first_queue = &make(*made, 0);
    view = std::move(made);
  }
  return *view;
}

/// Views are handed out as constants; what the core guards in them changes.
MeshView& MeshCore::of_mine(const MeshView& view) const {
  return const_cast<MeshView&>(view);  // NOLINT: made by view(), never constant
}

QueueLanes& MeshCore::lanes(int index) {
  std::unique_ptr<QueueLanes>& lanes = lanes_[index];
  if (lanes == nullptr) {
    auto made = std::make_unique<QueueLanes>();
    for (const auto& device : devices_) {
      made->queues.push_back(device->create_queue());
    }
    lanes = std::move(made);
  }
  return *lanes;
}

MeshQueue& MeshCore::make(MeshView& view, int index) {
  std::unique_ptr<MeshQueue>& queue = view.queues[index];
  if (queue == nullptr) {
    queue = std::make_unique<MeshQueue>(*this, view, index, lanes(index));
  }
  return *queue;
}

std::shared_ptr<Communicator> MeshCore::communicator(const MeshView& view) {
  const std::lock_guard lock(queues_mutex_);
  std::shared_ptr<Communicator>& group = of_mine(view).communicator;
  if (group == nullptr) {
    std::vector<LocalCommunicator::Member> members;
    for (const int number : view.devices) {
      members.push_back({&device(number), to_string(whole().shape.coord_of(number))});
    }
    group = std::make_shared<LocalCommunicator>(members, collective_timeout_);
  }
  return group;
}

std::vector<Event> MeshCore::follow_launches(const DeviceProgram& program, const QueueLanes& lanes,
                                             const Event& done) {
  std::optional<Event> before;
  {
    const std::lock_guard lock(launches_mutex_);
    std::erase_if(launches_, [](const Launch& launch) { return launch.done.ready(); });
    const auto found = std::ranges::find(launches_, &program, &Launch::program);
    if (found == launches_.end()) {
      launches_.push_back({&program, &lanes, done});
      return {};
    }
    if (found->lanes != &lanes) {
      before = found->done;
    }
    *found = {&program, &lanes, done};
  }
  if (!before) {
    return {};
  }
  const EventSource ended;  // its failure is nothing to this one
  before->then([ended](const Status&) { ended.complete({}); });
  return {ended.event()};
}

std::shared_ptr<const ExchangeProgram> MeshCore::exchange_program(const MeshView& view,
                                                                  const Exchange& exchange) {
  if (auto kept = exchange_programs_.find(view, exchange)) {
    return kept;
  }
  DeviceStep step;
  step.kind = DeviceStep::Kind::exchange;
  step.name = std::string(to_string(exchange.from.mesh == exchange.to.mesh
                                        ? movement_between(exchange.from, exchange.to)
                                        : Movement::mixed));
  step.operands = {{.base = 0}, {.base = 1}};
  step.exchange = {std::make_shared<const Exchange>(exchange), communicator(view), 0};
  auto made = std::make_shared<ExchangeProgram>();
  for (std::size_t i = 0; i < view.devices.size(); ++i) {
    step.exchange.member = static_cast<int>(i);
    made->programs.push_back(device(view.devices[i]).prepare({&step, 1}));
  }
  for (int target = 0; target < exchange.to.mesh.device_count(); ++target) {
    made->bytes += bytes_received(exchange.from, exchange.to, target, exchange.members);
  }
  exchange_programs_.keep(view, exchange, made);
  return made;
}

MeshQueue& MeshCore::queue(const MeshView& view, int index) {
  if (index == 0) {
    return *view.first_queue;
  }
  if (index < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no queue {}: they count from 0", index));
  }
  const std::lock_guard lock(queues_mutex_);
  return make(of_mine(view), index);
}

/// All queue numbers there are, as this view sees them.
std::vector<MeshQueue*> MeshCore::all_queues(const MeshView& view) {
  const std::lock_guard lock(queues_mutex_);
  std::vector<MeshQueue*> all;
  for (const auto& [index, lanes] : lanes_) {
    if (lanes != nullptr) {
      all.push_back(&make(of_mine(view), index));
    }
  }
  return all;
}

bool MeshCore::idle(const MeshView& view) const {
  const std::lock_guard lock(queues_mutex_);
  return std::ranges::all_of(lanes_, [&view](const auto& entry) {
    return entry.second == nullptr || std::ranges::all_of(view.devices, [&](int device) {
             return entry.second->queues[static_cast<std::size_t>(device)]->idle();
           });
  });
}

Event MeshCore::mark_for_free(const MeshView& view) {
  const CaptureScope none(nullptr);  // the marks are for now, not for a replay
  const std::vector<MeshQueue*> queues = all_queues(view);
  std::uint64_t work = 0;
  for (const MeshQueue* queue : queues) {
    work += queue->work_count();
  }
  MeshView& mine = of_mine(view);
  {
    const std::lock_guard lock(frees_mutex_);
    if (work == mine.last_mark_work && !mine.last_mark.ready()) {
      return mine.last_mark;
    }
  }
  std::vector<Event> events;
  for (MeshQueue* queue : queues) {
    if (Event mark = queue->record(); !mark.ready()) {
      events.push_back(std::move(mark));
    }
  }
  Event all = events.size() == 1 ? std::move(events.front()) : Event::when_all(events);
  const std::lock_guard lock(frees_mutex_);
  mine.last_mark = all;
  mine.last_mark_work = work;
  return all;
}

void MeshCore::free_in_order(const MeshView& view, Space space, const ByteRange& range,
                             const std::string& label) noexcept {
  try {
    if (!idle(view)) {
      const Event after = mark_for_free(view);
      {
        const std::lock_guard lock(frees_mutex_);
        frees_.push_back({after, &view, space, range, label});
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
  ledger_.free(space, range, label, allocator_devices(view));
}

void MeshCore::free_what_is_due() noexcept {
  const std::lock_guard lock(frees_mutex_);
  std::erase_if(frees_, [this](const PendingFree& free) {
    if (!free.after.ready()) {
      return false;
    }
    ledger_.free(free.space, free.range, free.label, allocator_devices(*free.view));
    return true;
  });
}

bool MeshCore::drain(const MeshView& view, std::chrono::nanoseconds timeout) {
  if (on_worker_thread()) {
    return true;
  }
  const CaptureScope none(nullptr);
  std::vector<Event> marks;
  for (MeshQueue* queue : all_queues(view)) {
    marks.push_back(queue->record());
  }
  // What wider views free waits for more devices, so this is waited for as well.
  {
    const std::lock_guard lock(frees_mutex_);
    for (const PendingFree& free : frees_) {
      if (free.view->shares_with(view)) {
        marks.push_back(free.after);
      }
    }
  }
  const auto start = std::chrono::steady_clock::now();
  bool ended = true;
  for (const Event& mark : marks) {
    const auto passed = std::chrono::steady_clock::now() - start;
    ended = mark.wait_for(std::max(timeout - passed, std::chrono::nanoseconds::zero())) && ended;
  }
  free_what_is_due();
  return ended;
}

}  // namespace tilemesh::detail
