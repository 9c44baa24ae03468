#include "device/watchdog.hpp"

#include <utility>
#include <vector>

#include "device/local_gathering.hpp"

namespace tilemesh::detail {

void Watchdog::List::add(LocalGathering& gathering) {
  const std::lock_guard guard(lock_);
  LocalGathering::Links& links = gathering.links();
  links = {nullptr, first_};
  if (first_ != nullptr) {
    first_->links().before = &gathering;
  }
  first_ = &gathering;
}

void Watchdog::List::remove(LocalGathering& gathering) {
  const std::lock_guard guard(lock_);
  const LocalGathering::Links links = gathering.links();
  (links.before == nullptr ? first_ : links.before->links().next) = links.next;
  if (links.next != nullptr) {
    links.next->links().before = links.before;
  }
}

void Watchdog::List::tell(std::chrono::steady_clock::time_point now) {
  std::vector<std::shared_ptr<LocalGathering>> there;  // let go without the lock, which ends some
  {
    const std::lock_guard guard(lock_);
    for (LocalGathering* each = first_; each != nullptr; each = each->links().next) {
      if (auto held = each->weak_from_this().lock()) {
        there.push_back(std::move(held));
      }
    }
  }
  for (const auto& gathering : there) {
    gathering->look_at_clock(now);
  }
}

Watchdog::Watchdog(std::chrono::nanoseconds period) : period_(period) {}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(sleep_->mutex);
    sleep_->ended = true;
  }
  sleep_->wake.notify_all();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Watchdog::start() {
  std::call_once(started_, [this] {
    thread_ =
        std::thread([list = list_, sleep = sleep_, period = period_] { run(list, sleep, period); });
  });
}

void Watchdog::run(const std::shared_ptr<List>& list, const std::shared_ptr<Sleep>& sleep,
                   std::chrono::nanoseconds period) {
  std::unique_lock lock(sleep->mutex);
  while (!sleep->wake.wait_for(lock, period, [&sleep] { return sleep->ended; })) {
    lock.unlock();
    try {
      list->tell(std::chrono::steady_clock::now());
    } catch (...) {  // no host memory: the next round may have some
    }
    lock.lock();
  }
}

}  // namespace tilemesh::detail
