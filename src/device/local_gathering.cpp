#include "device/local_gathering.hpp"

#include <limits>
#include <mutex>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace tilemesh::detail {

LocalGathering::LocalGathering(std::shared_ptr<const LocalGroup> group, std::string label)
    : slots_(group->places.size()), group_(std::move(group)), label_(std::move(label)) {}

LocalGathering::~LocalGathering() {
  if (watched_) {
    group_->watched->remove(*this);
  }
}

void LocalGathering::arrive(int member, int meeting, const std::string& where) {
  Slot& slot = slots_[static_cast<std::size_t>(member)];
  slot.where.store(&where, std::memory_order_relaxed);
  slot.meeting.store(meeting, std::memory_order_relaxed);
  const std::uint64_t word = word_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if ((word & kFailed) != 0 || count_of(word) != wanted(meeting)) {
    return;
  }
  std::optional<Waiting> waiting;
  {
    const std::lock_guard guard(lock_);
    waiting = std::exchange(waiting_[static_cast<std::size_t>(meeting) % 2], std::nullopt);
  }
  if (waiting) {
    waiting->source.complete({});
  }
}

bool LocalGathering::complete(int meeting) const {
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  if (count_of(word) >= wanted(meeting)) {
    return true;
  }
  if ((word & kFailed) != 0) {
    failure_.throw_if_failed();
  }
  return false;
}

Event LocalGathering::event(int meeting, bool working) {
  Event event;
  bool watch = false;
  {
    const std::lock_guard guard(lock_);
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    if ((word & kFailed) != 0 || count_of(word) >= wanted(meeting)) {
      return event;
    }
    const auto parity = static_cast<std::size_t>(meeting) % 2;
    std::optional<Waiting>& waiting = waiting_[parity];
    if (!waiting) {
      waiting.emplace();
      waiting->working = working;
      waiting->since = std::chrono::steady_clock::now();
      waiting_for_[parity] = meeting;
    }
    event = waiting->source.event();
    watch = !working && !std::exchange(watched_, true);
  }
  if (watch) {
    group_->watched->add(*this);
    if (const auto watchdog = group_->watchdog.lock()) {
      watchdog->start();
    }
  }
  return event;
}

void LocalGathering::leave(int member) {
  const std::lock_guard guard(lock_);
  slots_[static_cast<std::size_t>(member)].where.store(nullptr, std::memory_order_relaxed);
}

Status LocalGathering::fail(int member, const Status& cause) {
  leave(member);
  if (fail_unless_complete(std::numeric_limits<int>::max(), cause)) {
    return cause;
  }
  return failure_;
}

/// False if the meeting is complete, or somebody failed before.
bool LocalGathering::fail_unless_complete(int meeting, const Status& cause) {
  std::array<std::optional<Waiting>, 2> waiting;
  {
    const std::lock_guard guard(lock_);
    if (!failure_.ok()) {
      return false;
    }
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    if (count_of(word) >= wanted(meeting)) {
      return false;
    }
    failure_ = cause;  // before others can see that there is one
    while (!word_.compare_exchange_weak(word, kFailed | word << 32 | word,
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
      if (count_of(word) >= wanted(meeting)) {
        failure_ = {};
        return false;
      }
    }
    waiting.swap(waiting_);
  }
  for (const auto& each : waiting) {
    if (each) {
      each->source.complete({});
    }
  }
  return true;
}

void LocalGathering::look_at_clock(std::chrono::steady_clock::time_point now) {
  int meeting = 0;
  std::string missing;
  {
    const std::lock_guard guard(lock_);
    for (std::size_t i = 0; i < waiting_.size() && missing.empty(); ++i) {
      if (waiting_[i] && !waiting_[i]->working && now - waiting_[i]->since >= group_->timeout) {
        meeting = waiting_for_[i];
        missing = who_is_missing(meeting);
      }
    }
  }
  if (!missing.empty()) {
    Error error(ErrorCode::timeout, missing);
    fail_unless_complete(meeting, label_.empty() ? error : error.in(label_));
  }
}

/// Empty if the last of them is coming just now. Requires the lock.
std::string LocalGathering::who_is_missing(int meeting) const {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> places;
  const Slot* first = nullptr;
  const std::string* meant = nullptr;
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.meeting.load(std::memory_order_relaxed) >= meeting) {
      const std::string* const where = slot.where.load(std::memory_order_relaxed);
      meant = where != nullptr ? where : meant;
      continue;
    }
    first = first == nullptr ? &slot : first;
    if (++count <= kNamed) {
      places.push_back(group_->places[i]);
    }
  }
  if (count == 0) {
    return {};
  }
  const std::string* const where = first->where.load(std::memory_order_relaxed);
  std::string last = "hasn't met the others in this launch";
  if (where != nullptr) {
    last = fmt::format("was last at {}", *where);
  } else if (first->meeting.load(std::memory_order_relaxed) >= 0) {
    last = "has ended its program";
  }
  return fmt::format("device{} {}{} didn't come to {} within {}: {} {}", count == 1 ? "" : "s",
                     fmt::join(places, ", "),
                     count > kNamed ? fmt::format(" and {} others", count - kNamed) : std::string(),
                     meant == nullptr ? "a collective" : *meant,
                     std::chrono::duration_cast<std::chrono::milliseconds>(group_->timeout),
                     count == 1 ? "it" : "the first", last);
}

}  // namespace tilemesh::detail
