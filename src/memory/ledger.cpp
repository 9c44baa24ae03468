#include "tilemesh/memory/ledger.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kHoldersShown = 5;
constexpr std::size_t kIdleLabelsKept = 1024;

struct Account {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
};

struct LabelHash {
  using is_transparent = void;  // so that a string_view finds its label without a copy
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using Accounts = std::unordered_map<std::string, Account, LabelHash, std::equal_to<>>;

/// One memory space: its allocator and the accounts by label. A label stays when its last range is
/// freed, so that the next one needs no heap memory.
struct Arena {
  Space space;
  LockstepAllocator allocator;
  Accounts accounts;
  std::size_t idle_count = 0;  // accounts that hold nothing

  void book(std::string_view label, std::int64_t bytes) {
    auto found = accounts.find(label);
    if (found == accounts.end()) {
      drop_idle();
      found = accounts.emplace(label, Account{}).first;
      ++idle_count;
    }
    if (found->second.count == 0) --idle_count;
    found->second.bytes += bytes;
    ++found->second.count;
  }

  void unbook(std::string_view label, std::int64_t bytes) {
    const auto found = accounts.find(label);
    if (found == accounts.end() || found->second.count == 0) return;
    found->second.bytes -= bytes;
    if (--found->second.count == 0) ++idle_count;
  }

  /// Labels made up for each tensor would pile up without end.
  void drop_idle() {
    if (idle_count < kIdleLabelsKept || idle_count < accounts.size() / 2) return;
    std::erase_if(accounts, [](const auto& entry) { return entry.second.count == 0; });
    idle_count = 0;
  }

  /// Largest first, at most `count`.
  std::vector<MemoryHolder> holders(std::size_t count) const {
    std::vector<MemoryHolder> result;
    for (const auto& [label, account] : accounts) {
      if (account.count != 0) result.push_back({label, account.bytes, account.count});
    }
    const auto end = result.begin() + static_cast<std::ptrdiff_t>(std::min(count, result.size()));
    std::partial_sort(result.begin(), end, result.end(), [](const auto& a, const auto& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.label < b.label;
    });
    result.erase(end, result.end());
    return result;
  }

  // Lock-step: device 0 speaks for all.
  std::int64_t used_bytes() const { return allocator.used_bytes(0); }
  std::int64_t free_bytes() const { return allocator.arena_bytes() - used_bytes(); }
  std::int64_t largest_hole_bytes() const { return allocator.largest_hole_bytes(0); }

  SpaceReport report() const {
    return {.space = space,
            .total_bytes = allocator.arena_bytes(),
            .used_bytes = used_bytes(),
            .free_bytes = free_bytes(),
            .largest_hole_bytes = largest_hole_bytes(),
            .peak_bytes = allocator.peak_bytes(0),
            .holders = holders(accounts.size())};
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

  State(int device_count, std::int64_t dram_bytes, std::int64_t l1_bytes)
      : dram{Space::dram, LockstepAllocator(device_count, dram_bytes), {}},
        l1{Space::l1, LockstepAllocator(device_count, l1_bytes), {}} {}

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

Ledger::Ledger(int device_count, std::int64_t dram_bytes, std::int64_t l1_bytes)
    : state_(std::make_unique<State>(device_count, dram_bytes, l1_bytes)) {}
Ledger::~Ledger() = default;

std::optional<ByteRange> Ledger::allocate(Space space, std::int64_t bytes, std::int64_t alignment,
                                          Lifetime lifetime, std::string_view label) {
  const std::lock_guard lock(state_->mutex);
  Arena& arena = state_->arena(space);
  const auto range = arena.allocator.allocate(bytes, alignment, lifetime);
  if (range) arena.book(label, range->bytes);
  return range;
}

void Ledger::free(Space space, const ByteRange& range, std::string_view label) noexcept {
  const std::lock_guard lock(state_->mutex);
  try {
    Arena& arena = state_->arena(space);
    arena.allocator.free(range);
    arena.unbook(label, range.bytes);
  } catch (const Error&) {
    // A range that was never handed out: nothing is changed, and the report goes on naming
    // whatever the caller meant to free.
  }
}

MemoryReport Ledger::report() const {
  const std::lock_guard lock(state_->mutex);
  return {.spaces = {state_->dram.report(), state_->l1.report()}};
}

std::string Ledger::describe_shortage(Space space, std::int64_t bytes,
                                      std::string_view label) const {
  const std::lock_guard lock(state_->mutex);
  const Arena& arena = state_->arena(space);
  const auto [asked, hole] = distinct_texts(bytes, arena.largest_hole_bytes());
  return fmt::format("asked {} of {} for \"{}\": {} of {} are free, the largest hole has {}; {}",
                     asked, to_string(space), label, to_bytes_text(arena.free_bytes()),
                     to_bytes_text(arena.allocator.arena_bytes()), hole,
                     holders_text(arena.holders(kHoldersShown)));
}

}  // namespace tilemesh
