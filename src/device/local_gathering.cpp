#include "device/local_gathering.hpp"

#include <mutex>
#include <utility>

namespace tilemesh::detail {

LocalGathering::LocalGathering(std::shared_ptr<const Places> places, std::string label)
    : slots_(places->size()), places_(std::move(places)), label_(std::move(label)) {}

void LocalGathering::arrive(int member, int meeting, const std::string& where) {
  slots_[static_cast<std::size_t>(member)].where.store(&where, std::memory_order_relaxed);
  const std::uint64_t word = word_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if ((word & kFailed) != 0 || count_of(word) != wanted(meeting)) {
    return;
  }
  Waiting waiting;
  {
    const std::lock_guard guard(lock_);
    waiting = std::exchange(waiting_[static_cast<std::size_t>(meeting) % 2], std::nullopt);
  }
  if (waiting) {
    waiting->complete({});
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

Event LocalGathering::event(int meeting, bool /*working*/) {
  const std::lock_guard guard(lock_);
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  if ((word & kFailed) != 0 || count_of(word) >= wanted(meeting)) {
    return {};
  }
  Waiting& waiting = waiting_[static_cast<std::size_t>(meeting) % 2];
  if (!waiting) {
    waiting.emplace();
  }
  return waiting->event();
}

void LocalGathering::leave(int member) {
  const std::lock_guard guard(lock_);
  slots_[static_cast<std::size_t>(member)].where.store(nullptr, std::memory_order_relaxed);
}

Status LocalGathering::fail(int member, const Status& cause) {
  leave(member);
  return fail_once(cause);
}

Status LocalGathering::fail_once(const Status& cause) {
  std::array<Waiting, 2> waiting;
  {
    const std::lock_guard guard(lock_);
    if (!failure_.ok()) {
      return failure_;
    }
    failure_ = cause;
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, kFailed | word << 32 | word,
                                        std::memory_order_acq_rel)) {
    }
    waiting.swap(waiting_);
  }
  for (const Waiting& each : waiting) {
    if (each) {
      each->complete({});
    }
  }
  return cause;
}

}  // namespace tilemesh::detail
