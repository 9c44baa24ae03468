#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {

/// First in, first out; grows to the most it ever held and allocates nothing after that.
template <class T>
class RingQueue {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }

  void push_back(T item) {
    if (count_ == slots_.size()) {
      grow();
    }
    slots_[(first_ + count_) & (slots_.size() - 1)].emplace(std::move(item));
    ++count_;
  }
  void push_front(T item) {
    if (count_ == slots_.size()) {
      grow();
    }
    first_ = (first_ + slots_.size() - 1) & (slots_.size() - 1);
    slots_[first_].emplace(std::move(item));
    ++count_;
  }
  T& front() {
    TILEMESH_CHECK(count_ > 0, "the front of an empty queue");
    return *slots_[first_];
  }
  T pop_front() {
    T item = std::move(front());
    slots_[first_].reset();
    first_ = (first_ + 1) & (slots_.size() - 1);
    --count_;
    return item;
  }

 private:
  void grow() {
    constexpr std::size_t kLeast = 8;
    std::vector<std::optional<T>> larger(slots_.empty() ? kLeast : 2 * slots_.size());
    for (std::size_t i = 0; i < count_; ++i) {
      larger[i] = std::move(slots_[(first_ + i) & (slots_.size() - 1)]);
    }
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<std::optional<T>> slots_;  // as many as a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tilemesh::detail
