#include "backends/cpu/worker_pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <pthread.h>

#include "tilemesh/device/ring_queue.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/cpu/machine.hpp"
#include "backends/cpu/omp_threads.hpp"

namespace tilemesh::cpu {

struct WorkList::State {
  std::atomic<int> size = 0;      // what spinning workers look at
  std::atomic<int> awake = 0;     // workers that will look before they sleep
  std::atomic<int> sleeping = 0;  // workers that must be woken
  std::atomic<bool> ended = false;
  detail::SpinLock lock;  // of `works` and their listed_
  detail::RingQueue<std::shared_ptr<Work>> works;
  std::mutex sleep_mutex;
  std::condition_variable wake;

  /// Wakes a worker if there is more work than workers that will look for it.
  void wake_if_wanted() {
    // A worker says that it sleeps before it looks for the last time.
    if (sleeping.load() > 0 && size.load() > awake.load()) {
      const std::lock_guard guard(sleep_mutex);
      wake.notify_one();
    }
  }
};

WorkList::WorkList() : state_(std::make_unique<State>()) {}
WorkList::~WorkList() = default;

std::shared_ptr<Work> WorkList::pop() {
  const std::lock_guard guard(state_->lock);
  if (state_->works.empty()) {
    return nullptr;
  }
  std::shared_ptr<Work> work = state_->works.pop_front();
  work->listed_ = false;
  state_->size.fetch_sub(1);
  return work;
}

void WorkList::schedule(std::shared_ptr<Work> work) {
  State& state = *state_;
  {
    const std::lock_guard guard(state.lock);
    if (state.ended.load() || std::exchange(work->listed_, true)) {
      return;
    }
    state.works.push_back(std::move(work));
    state.size.fetch_add(1);
  }
  state.wake_if_wanted();
}

std::shared_ptr<Work> WorkList::next(std::chrono::nanoseconds spin) {
  State& state = *state_;
  state.awake.fetch_add(1);
  detail::SpinWait wait(spin);
  do {
    if (state.ended.load(std::memory_order_relaxed)) {
      state.awake.fetch_sub(1);
      return nullptr;
    }
    if (state.size.load(std::memory_order_relaxed) > 0) {
      if (auto work = pop()) {
        state.awake.fetch_sub(1);
        state.wake_if_wanted();  // who listed some since pop() took this one to be looking
        return work;
      }
    }
  } while (wait.step());
  std::unique_lock lock(state.sleep_mutex);
  state.sleeping.fetch_add(1);
  state.awake.fetch_sub(1);
  std::shared_ptr<Work> work;
  state.wake.wait(lock, [&] { return state.ended.load() || (work = pop()) != nullptr; });
  state.sleeping.fetch_sub(1);
  return work;
}

void WorkList::end() {
  {
    const std::lock_guard lock(state_->sleep_mutex);
    state_->ended.store(true);
  }
  state_->wake.notify_all();
  while (pop() != nullptr) {  // works hold the list, so it must not hold them for ever
  }
}

namespace {

void work(WorkList& list, const WorkerPoolOptions& options) {
  constexpr std::size_t kLongestName = 15;
  const detail::WorkerScope scope;
  pthread_setname_np(pthread_self(), options.name.substr(0, kLongestName).c_str());
  bind_this_thread(options.processors);
  set_omp_threads(options.threads_per_worker);
  while (const std::shared_ptr<Work> next = list.next(options.spin)) {
    next->run();
  }
}

}  // namespace

WorkerPool::WorkerPool(const WorkerPoolOptions& options) : list_(std::make_shared<WorkList>()) {
  threads_.reserve(static_cast<std::size_t>(options.workers));
  for (int i = 0; i < options.workers; ++i) {
    threads_.emplace_back([list = list_, options] { work(*list, options); });
  }
}

WorkerPool::~WorkerPool() {
  list_->end();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

bool WorkerPool::is_this_thread() const {
  return std::ranges::any_of(threads_, [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

}  // namespace tilemesh::cpu
