#include "backends/cpu/worker_pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <pthread.h>

#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/cpu/machine.hpp"
#include "backends/cpu/omp_threads.hpp"
#include "backends/cpu/ring_queue.hpp"

namespace tilemesh::cpu {

namespace {

constexpr std::chrono::nanoseconds kSpin = std::chrono::milliseconds(1);
constexpr std::size_t kLongestThreadName = 15;

}  // namespace

struct WorkerPool::State {
  /// The next work, or null when the pool ends.
  std::shared_ptr<Work> next();
  /// Requires the lock. Null if there is none.
  std::shared_ptr<Work> pop();

  std::atomic<int> size = 0;      // of the list: what spinning workers look at
  std::atomic<int> spinning = 0;  // workers that will look before they sleep
  std::atomic<bool> ended = false;
  std::mutex mutex;  // of the list, `sleeping` and the works' scheduled_
  std::condition_variable wake;
  RingQueue<std::shared_ptr<Work>> list;
  int sleeping = 0;
};

std::shared_ptr<Work> WorkerPool::State::pop() {
  if (list.empty()) {
    return nullptr;
  }
  std::shared_ptr<Work> work = list.pop_front();
  size.fetch_sub(1, std::memory_order_relaxed);
  work->scheduled_ = false;
  return work;
}

std::shared_ptr<Work> WorkerPool::State::next() {
  spinning.fetch_add(1);
  detail::SpinWait spin(kSpin);
  do {
    if (ended.load(std::memory_order_relaxed)) {
      spinning.fetch_sub(1);
      return nullptr;
    }
    if (size.load(std::memory_order_relaxed) > 0) {
      const std::lock_guard lock(mutex);
      if (auto work = pop()) {
        spinning.fetch_sub(1);
        return work;
      }
    }
  } while (spin.step());
  std::unique_lock lock(mutex);
  spinning.fetch_sub(1);
  ++sleeping;
  wake.wait(lock, [this] { return !list.empty() || ended.load(); });
  --sleeping;
  return ended.load() ? nullptr : pop();
}

void WorkerPool::work(const std::shared_ptr<State>& state, const WorkerPoolOptions& options) {
  const detail::WorkerScope scope;
  pthread_setname_np(pthread_self(), options.name.substr(0, kLongestThreadName).c_str());
  bind_this_thread(options.processors);
  set_omp_threads(options.threads_per_worker);
  while (const std::shared_ptr<Work> work = state->next()) {
    work->run();
  }
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options) : state_(std::make_shared<State>()) {
  threads_.reserve(static_cast<std::size_t>(options.workers));
  for (int i = 0; i < options.workers; ++i) {
    threads_.emplace_back([state = state_, options] { work(state, options); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended.store(true);
  }
  state_->wake.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void WorkerPool::schedule(std::shared_ptr<Work> work) {
  bool wake = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(work->scheduled_, true)) {
      return;
    }
    state_->list.push_back(std::move(work));
    const int size = state_->size.fetch_add(1, std::memory_order_relaxed) + 1;
    wake = state_->sleeping > 0 && size > state_->spinning.load();
  }
  if (wake) {
    state_->wake.notify_one();
  }
}

bool WorkerPool::is_this_thread() const {
  return std::ranges::any_of(threads_, [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

}  // namespace tilemesh::cpu
