#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::detail {

class LocalGathering;

/// Looks after gatherings whose members wait without a thread: one thread, which begins with the
/// first of them and ends with this.
class Watchdog {
 public:
  /// Gatherings are told the time every `period`.
  explicit Watchdog(std::chrono::nanoseconds period);
  /// May run on the thread itself, which then ends soon.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Gatherings that are looked after; each takes itself off the list when it ends. Outlives the
  /// watchdog while there are some.
  class List {
   public:
    void add(LocalGathering& gathering);
    void remove(LocalGathering& gathering);
    /// Tells all that are there.
    void tell(std::chrono::steady_clock::time_point now);

   private:
    SpinLock lock_;
    LocalGathering* first_ = nullptr;
  };
  const std::shared_ptr<List>& list() const { return list_; }
  /// Begins if it hasn't.
  void start();

 private:
  struct Sleep {
    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
  };
  static void run(const std::shared_ptr<List>& list, const std::shared_ptr<Sleep>& sleep,
                  std::chrono::nanoseconds period);

  const std::chrono::nanoseconds period_;
  const std::shared_ptr<List> list_ = std::make_shared<List>();
  const std::shared_ptr<Sleep> sleep_ = std::make_shared<Sleep>();  // the thread holds both too
  std::once_flag started_;
  std::thread thread_;
};

}  // namespace tilemesh::detail
