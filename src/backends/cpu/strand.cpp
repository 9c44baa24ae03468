#include "backends/cpu/strand.hpp"

#include "tilemesh/device/command_flow.hpp"
#include "tilemesh/device/spin_wait.hpp"

namespace tilemesh::cpu {

Strand::Strand(std::shared_ptr<WorkerPool> pool, bool shares_workers)
    : pool_(std::move(pool)), shares_workers_(shares_workers) {}

std::shared_ptr<Lane> Strand::make_lane() {
  auto lane = std::make_shared<Lane>();
  const std::lock_guard lock(mutex_);
  std::erase_if(lanes_, [](const auto& other) { return other.use_count() == 1; });
  lanes_.push_back(lane);
  return lane;
}

void Strand::enqueue(const std::shared_ptr<Lane>& lane, Command command) {
  lane->unfinished.fetch_add(1);
  unfinished_.fetch_add(1);
  std::unique_lock lock(mutex_);
  if (!closed_.ok()) {
    lock.unlock();
    end(*lane, std::move(command), closed_);
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

void Strand::make_ready(const std::shared_ptr<Lane>& lane) {
  ready_.push_back(lane);
  ready_count_.fetch_add(1);
}

/// Whoever makes a lane ready, and whoever lets the strand go, calls this afterwards: one of two
/// that meet sees what the other did.
void Strand::schedule_if_ready() {
  State expected = State::idle;
  if (ready_count_.load() > 0 && state_.compare_exchange_strong(expected, State::scheduled)) {
    pool_->schedule(shared_from_this());
  }
}

void Strand::run() {
  constexpr int kTurn = 16;  // commands before other strands of shared workers get theirs
  State expected = State::scheduled;
  if (!state_.compare_exchange_strong(expected, State::running)) {
    return;  // a helping thread was faster
  }
  for (int turn = 0; run_one() && !(shares_workers_ && turn >= kTurn); ++turn) {
  }
  release();
}

void Strand::release() {
  state_.store(State::idle);
  schedule_if_ready();
}

bool Strand::try_claim(Lane& lane) {
  constexpr int kPatience = 200;  // a worker that has just completed the last command lets go soon
  for (int i = 0; unfinished_.load() == 0 && i < kPatience; ++i) {
    State expected = State::idle;
    if (state_.compare_exchange_strong(expected, State::running)) {
      unfinished_.fetch_add(1);
      lane.unfinished.fetch_add(1);
      return true;
    }
    detail::relax();
  }
  return false;
}

void Strand::release_claim(Lane& lane) {
  lane.unfinished.fetch_sub(1);
  unfinished_.fetch_sub(1);
  release();
}

void Strand::close(const Status& status) {
  std::vector<std::pair<std::shared_ptr<Lane>, Command>> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = status;
    for (const auto& lane : lanes_) {
      while (!lane->commands.empty()) {
        dropped.emplace_back(lane, lane->commands.pop_front());
      }
    }
  }
  for (auto& [lane, command] : dropped) {
    end(*lane, std::move(command), status);
  }
}

bool Strand::help() {
  if (ready_count_.load() == 0) {
    return false;
  }
  State expected = State::scheduled;
  if (!state_.compare_exchange_strong(expected, State::running)) {
    return false;
  }
  const bool ran = run_one();
  release();
  return ran;
}

/// Carries out the next command of the first lane that can go on; false if none can.
bool Strand::run_one() {
  std::unique_lock lock(mutex_);
  while (!ready_.empty()) {
    const std::shared_ptr<Lane> lane = ready_.pop_front();
    ready_count_.fetch_sub(1);
    if (lane->commands.empty()) {  // closed meanwhile
      lane->active = false;
      continue;
    }
    if (const Event* unready = detail::first_unready(lane->commands.front())) {
      set_aside(lock, lane, *unready);
      continue;
    }
    Command command = lane->commands.pop_front();
    lock.unlock();
    finish(*lane, std::move(command));
    lock.lock();
    lane->active = !lane->commands.empty();
    if (lane->active) {
      make_ready(lane);
    }
    return true;
  }
  return false;
}

void Strand::set_aside(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Lane>& lane,
                       const Event& awaited) {
  const Event event = awaited;
  lock.unlock();  // the callback may come at once
  event.then([weak = weak_from_this(), lane](const Status&) {
    if (const auto self = std::static_pointer_cast<Strand>(weak.lock())) {
      {
        const std::lock_guard again(self->mutex_);
        self->make_ready(lane);
      }
      self->schedule_if_ready();
    }
  });
  lock.lock();
}

void Strand::finish(Lane& lane, Command command) {
  Status status = detail::failed_dependency(command);
  if (status.ok()) {
    status = carry_out(command);
  }
  end(lane, std::move(command), status);
}

void Strand::end(Lane& lane, Command command, const Status& status) {
  const EventSource done = detail::release(std::move(command));
  lane.unfinished.fetch_sub(1);
  unfinished_.fetch_sub(1);
  done.complete(status);
}

}  // namespace tilemesh::cpu
