#include "tilemesh/device/strand.hpp"

#include <limits>

#include <fmt/format.h>

#include "tilemesh/device/command_flow.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

namespace tilemesh::detail {

std::shared_ptr<Lane> Strand::make_lane() {
  auto lane = std::make_shared<Lane>();
  const std::lock_guard guard(lock_);
  std::erase_if(lanes_, [](const auto& other) { return other.use_count() == 1; });
  lanes_.push_back(lane);
  return lane;
}

void Strand::enqueue(const std::shared_ptr<Lane>& lane, Command command) {
  lane->unfinished.fetch_add(1);
  unfinished_.fetch_add(1);
  std::unique_lock lock(lock_);
  if (!closed_status_.ok()) {
    lock.unlock();
    drop(*lane, std::move(command));
    return;
  }
  lane->commands.push_back(std::move(command));
  if (lane->active) {
    return;
  }
  lane->active = true;
  make_ready(lane);
  lock.unlock();
  schedule_if_ready();
}

/// Requires the lock.
void Strand::make_ready(const std::shared_ptr<Lane>& lane) {
  ready_.push_back(lane);
  ready_count_.fetch_add(1);
}

/// Whoever makes a lane ready, and whoever leaves the strand or stops polling it, calls this
/// afterwards: one of two that meet sees what the other did.
void Strand::schedule_if_ready() {
  State expected = State::idle;
  if (ready_count_.load() > 0 && !polled_.load() &&
      state_.compare_exchange_strong(expected, State::scheduled)) {
    schedule();
  }
}

bool Strand::begin(State from) {
  return state_.compare_exchange_strong(from, State::running);
}

void Strand::leave() {
  state_.store(State::idle);
  schedule_if_ready();
}

void Strand::carry_on(int limit) {
  if (begin(State::scheduled)) {
    run_some(limit);
  }
}

void Strand::poll(std::chrono::nanoseconds spin) {
  polled_.store(true);
  SpinWait wait(spin);
  do {
    if (ready_count_.load(std::memory_order_relaxed) > 0 &&
        (begin(State::idle) || begin(State::scheduled))) {
      run_some(std::numeric_limits<int>::max());
      wait = SpinWait(spin);
    }
  } while (!closed_.load(std::memory_order_relaxed) && wait.step());
  polled_.store(false);
  schedule_if_ready();
}

Strand::Claim::Claim(Strand& strand, Lane& lane) : strand_(strand), lane_(lane), held_(false) {
  constexpr int kPatience = 200;  // whoever has completed the last command lets go soon
  for (int i = 0; strand_.unfinished_.load() == 0 && i < kPatience; ++i) {
    if (strand_.begin(State::idle)) {
      strand_.unfinished_.fetch_add(1);
      lane_.unfinished.fetch_add(1);
      held_ = true;
      return;
    }
    relax();
  }
}

Strand::Claim::~Claim() {
  if (held_) {
    lane_.unfinished.fetch_sub(1);
    strand_.unfinished_.fetch_sub(1);
    strand_.leave();
  }
}

bool Strand::help() {
  return ready_count_.load() > 0 && (begin(State::idle) || begin(State::scheduled)) &&
         run_some(1) > 0;
}

void Strand::close() {
  std::vector<std::pair<std::shared_ptr<Lane>, Command>> dropped;
  {
    Error error(ErrorCode::invalid_argument,
                fmt::format("device {} was closed before the command began: keep its mesh open "
                            "until the events complete",
                            place_));
    const std::lock_guard guard(lock_);
    closed_status_ = std::move(error);
    closed_.store(true);
    for (const auto& lane : lanes_) {
      while (!lane->commands.empty()) {
        dropped.emplace_back(lane, lane->commands.pop_front());
      }
    }
  }
  for (auto& [lane, command] : dropped) {
    drop(*lane, std::move(command));
  }
}

/// Takes the next command of the first lane that can go on; requires the lock, and lets it go for a
/// while. Null if none can.
std::shared_ptr<Lane> Strand::next_lane(std::unique_lock<SpinLock>& lock) {
  while (!ready_.empty()) {
    std::shared_ptr<Lane> lane = ready_.pop_front();
    ready_count_.fetch_sub(1);
    if (lane->commands.empty()) {  // closed meanwhile
      lane->active = false;
      continue;
    }
    const Event* unready = first_unready(lane->commands.front());
    if (unready == nullptr) {
      return lane;
    }
    const Event awaited = *unready;
    lock.unlock();  // the callback may come at once
    set_aside(lane, awaited);
    lock.lock();
  }
  return nullptr;
}

/// Carries out at most `limit` commands, then leaves the strand; returns how many. Requires that
/// the caller has begun.
int Strand::run_some(int limit) {
  std::unique_lock lock(lock_);
  for (int count = 1;; ++count) {
    const std::shared_ptr<Lane> lane = next_lane(lock);
    if (lane == nullptr) {
      lock.unlock();
      leave();
      return count - 1;
    }
    Command command = lane->commands.pop_front();
    const bool last = count == limit || (lane->commands.empty() && ready_.empty());
    lock.unlock();
    std::optional<Event> awaited;
    std::optional<EventSource> done;
    Status status = outcome(command, awaited);
    if (awaited && put_back(*lane, command)) {
      set_aside(lane, *awaited);
    } else {
      if (awaited) {
        status = give_up(command, closed_status_);
      }
      done = let_go(std::move(command));
    }
    if (last) {
      leave();  // first, so that who sees the event complete finds the device idle
    }
    if (done) {
      done->complete(status);
      lane->unfinished.fetch_sub(1);
    } else if (last) {
      return count;
    }
    lock.lock();
    // Only now may the next begin, so that the events of a lane complete in order.
    const bool goes_on = done && !lane->commands.empty();
    if (goes_on) {
      make_ready(lane);
    } else if (done) {
      lane->active = false;
    }
    if (last) {
      lock.unlock();
      if (goes_on) {
        schedule_if_ready();
      }
      return count;
    }
  }
}

/// The command is to go on later; false if nothing does, since the strand was closed.
bool Strand::put_back(Lane& lane, Command& command) {
  const std::lock_guard guard(lock_);
  if (!closed_status_.ok()) {
    return false;
  }
  lane.commands.push_front(std::move(command));
  return true;
}

void Strand::set_aside(const std::shared_ptr<Lane>& lane, const Event& awaited) {
  awaited.then([weak = weak_from_this(), lane](const Status&) {
    if (const auto self = weak.lock()) {
      {
        const std::lock_guard guard(self->lock_);
        self->make_ready(lane);
      }
      self->schedule_if_ready();
    }
  });
}

Status Strand::outcome(Command& command, std::optional<Event>& awaited) {
  Status status = failed_dependency(command);
  if (status.ok()) {
    const WorkerScope scope;
    try {
      awaited = carry_out(command.work);
      return {};
    } catch (...) {
      status = failure_of(command, std::current_exception(), place_);
    }
  }
  return give_up(command, status);
}

/// The command is over, but for its event.
EventSource Strand::let_go(Command command) {
  EventSource done = release(std::move(command));
  unfinished_.fetch_sub(1);
  return done;
}

/// Ends a command that won't be carried out, since the strand was closed.
void Strand::drop(Lane& lane, Command command) {
  const Status cause = give_up(command, closed_status_);
  let_go(std::move(command)).complete(cause);
  lane.unfinished.fetch_sub(1);
}

}  // namespace tilemesh::detail
