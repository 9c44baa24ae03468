#include "tilemesh/memory/ledger.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kHoldersShown = 5;
constexpr std::size_t kIdleLabelsKept = 1024;

using Devices = std::vector<int>;

struct Account {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
};

/// Same label, same devices.
struct PartAccount {
  Devices devices;
  Account held;
};

/// What one label holds: on all devices, and on some.
struct LabelAccount {
  Account whole;
  std::vector<PartAccount> parts;

  bool idle() const { return whole.count == 0 && parts.empty(); }

  Account& of(const Devices* devices) {
    if (devices == nullptr) return whole;
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& part) { return part.devices == *devices; });
    return found != parts.end() ? found->held : parts.emplace_back(*devices, Account{}).held;
  }
  void drop_empty_parts() {
    std::erase_if(parts, [](const auto& part) { return part.held.count == 0; });
  }
  std::int64_t bytes_on(int device) const {
    std::int64_t bytes = whole.bytes;
    for (const PartAccount& part : parts) {
      if (std::binary_search(part.devices.begin(), part.devices.end(), device)) {
        bytes += part.held.bytes;
      }
    }
    return bytes;
  }
  std::int64_t count_on(const Devices& devices) const {
    std::int64_t count = whole.count;
    for (const PartAccount& part : parts) {
      const bool shares = std::any_of(devices.begin(), devices.end(), [&](int device) {
        return std::binary_search(part.devices.begin(), part.devices.end(), device);
      });
      if (shares) count += part.held.count;
    }
    return count;
  }
};

struct LabelHash {
  using is_transparent = void;  // so that a string_view finds its label without a copy
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using Accounts = std::unordered_map<std::string, LabelAccount, LabelHash, std::equal_to<>>;

/// One memory space: its allocator and the accounts by label. A label stays when its last range is
/// freed, so that the next one needs no heap memory.
struct Arena {
  Space space;
  std::unique_ptr<Allocator> allocator;
  Accounts accounts = {};
  std::size_t idle_count = 0;            // accounts that hold nothing
  Accounts::value_type* last = nullptr;  // looked up; the next is often the same

  Accounts::value_type* find(std::string_view label) {
    if (last == nullptr || last->first != label) {
      const auto found = accounts.find(label);
      last = found == accounts.end() ? nullptr : &*found;
    }
    return last;
  }

  void book(std::string_view label, std::int64_t bytes, const Devices* devices) {
    Accounts::value_type* found = find(label);
    if (found == nullptr) {
      drop_idle();
      found = last = &*accounts.emplace(label, LabelAccount{}).first;
      ++idle_count;
    }
    if (found->second.idle()) --idle_count;
    Account& account = found->second.of(devices);
    account.bytes += bytes;
    ++account.count;
  }

  void unbook(std::string_view label, std::int64_t bytes, const Devices* devices) {
    Accounts::value_type* const found = find(label);
    if (found == nullptr || found->second.idle()) return;
    Account& account = found->second.of(devices);
    if (account.count != 0) {
      account.bytes -= bytes;
      --account.count;
    }
    if (devices != nullptr) found->second.drop_empty_parts();
    if (found->second.idle()) ++idle_count;
  }

  /// Labels made up for each tensor would pile up without end.
  void drop_idle() {
    if (idle_count < kIdleLabelsKept || idle_count < accounts.size() / 2) return;
    std::erase_if(accounts, [](const auto& entry) { return entry.second.idle(); });
    idle_count = 0;
    last = nullptr;
  }

  /// Largest first, at most `count`.
  std::vector<MemoryHolder> holders(const Devices& devices, std::size_t count) const {
    std::vector<MemoryHolder> result;
    for (const auto& [label, account] : accounts) {
      if (account.idle()) continue;
      MemoryHolder holder{label, 0, account.count_on(devices)};
      for (const int device : devices)
        holder.bytes = std::max(holder.bytes, account.bytes_on(device));
      if (holder.count != 0) result.push_back(std::move(holder));
    }
    const auto end = result.begin() + static_cast<std::ptrdiff_t>(std::min(count, result.size()));
    std::partial_sort(result.begin(), end, result.end(), [](const auto& a, const auto& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.label < b.label;
    });
    result.erase(end, result.end());
    return result;
  }

  /// The largest value of `of` on a device.
  std::int64_t most(const Devices& devices, std::int64_t (Allocator::*of)(int) const) const {
    std::int64_t result = 0;
    for (const int device : devices)
      result = std::max(result, (*allocator.*of)(device));
    return result;
  }

  SpaceReport report(const Devices& devices, std::size_t holders_shown) const {
    const std::int64_t used = most(devices, &Allocator::used_bytes);
    return {.space = space,
            .total_bytes = allocator->arena_bytes(),
            .used_bytes = used,
            .free_bytes = allocator->arena_bytes() - used,
            .largest_hole_bytes = allocator->largest_hole_bytes(&devices),
            .peak_bytes = most(devices, &Allocator::peak_bytes),
            .holders = holders(devices, holders_shown)};
  }
};

std::string holders_text(const std::vector<MemoryHolder>& holders) {
  if (holders.empty()) return "nothing is held";
  std::string text = "largest holders:";
  for (const MemoryHolder& holder : holders) {
    text += fmt::format("{} \"{}\" {}", &holder == &holders.front() ? "" : ",", holder.label,
                        to_bytes_text(holder.bytes));
    if (holder.count > 1) text += fmt::format(" in {}", holder.count);
  }
  return text;
}

/// Two sizes, to the byte where rounding would make them look alike.
std::pair<std::string, std::string> distinct_texts(std::int64_t a, std::int64_t b) {
  std::pair<std::string, std::string> texts{to_bytes_text(a), to_bytes_text(b)};
  if (a != b && texts.first == texts.second) {
    texts = {fmt::format("{} bytes", a), fmt::format("{} bytes", b)};
  }
  return texts;
}

}  // namespace

struct Ledger::State {
  mutable std::mutex mutex;  // guards what follows
  Arena dram;
  Arena l1;

  State(std::unique_ptr<Allocator> of_dram, std::unique_ptr<Allocator> of_l1)
      : dram{Space::dram, std::move(of_dram)}, l1{Space::l1, std::move(of_l1)} {}

  Devices all_or(const Devices* devices) const {
    if (devices != nullptr) return *devices;
    Devices all(static_cast<std::size_t>(dram.allocator->device_count()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  Arena& arena(Space space) {
    switch (space) {
      case Space::dram: return dram;
      case Space::l1: return l1;
      case Space::host: break;
    }
    throw Error(ErrorCode::invalid_argument,
                "the ledger keeps the devices' dram and l1; host memory is the process's own");
  }
};

Ledger::Ledger(int device_count, std::int64_t dram_bytes, std::int64_t l1_bytes,
               const AllocatorDecorator& decorate) {
  const auto make = [&](Space space, std::int64_t bytes) -> std::unique_ptr<Allocator> {
    auto allocator = std::make_unique<LockstepAllocator>(device_count, bytes);
    if (decorate) return decorate(space, std::move(allocator));
    return allocator;
  };
  state_ = std::make_unique<State>(make(Space::dram, dram_bytes), make(Space::l1, l1_bytes));
}
Ledger::~Ledger() = default;

std::optional<ByteRange> Ledger::allocate(Space space, std::int64_t bytes, std::int64_t alignment,
                                          Lifetime lifetime, std::string_view label,
                                          const std::vector<int>* devices) {
  const std::lock_guard lock(state_->mutex);
  Arena& arena = state_->arena(space);
  const auto range = arena.allocator->take({bytes, alignment, lifetime, devices});
  if (range) arena.book(label, range->bytes, devices);
  return range;
}

void Ledger::free(Space space, const ByteRange& range, std::string_view label,
                  const std::vector<int>* devices) noexcept {
  const std::lock_guard lock(state_->mutex);
  try {
    Arena& arena = state_->arena(space);
    arena.allocator->give(devices, range);
    arena.unbook(label, range.bytes, devices);
  } catch (const Error&) {
    // A range that was never handed out: nothing is changed, and the report goes on naming
    // whatever the caller meant to free.
  }
}

MemoryReport Ledger::report(const std::vector<int>* devices) const {
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  const std::lock_guard lock(state_->mutex);
  const Devices chosen = state_->all_or(devices);
  return {.spaces = {state_->dram.report(chosen, kAll), state_->l1.report(chosen, kAll)}};
}

std::string Ledger::describe_shortage(Space space, std::int64_t bytes, std::string_view label,
                                      const std::vector<int>* devices,
                                      std::string_view place) const {
  const std::lock_guard lock(state_->mutex);
  const SpaceReport report = state_->arena(space).report(state_->all_or(devices), kHoldersShown);
  const auto [asked, hole] = distinct_texts(bytes, report.largest_hole_bytes);
  return fmt::format(
      "asked {} of {} for \"{}\"{}{}: {} of {} are free, the largest hole has {}; {}", asked,
      to_string(space), label, place.empty() ? "" : " on ", place, to_bytes_text(report.free_bytes),
      to_bytes_text(report.total_bytes), hole, holders_text(report.holders));
}

}  // namespace tilemesh
