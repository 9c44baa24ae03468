#pragma once

#include <cstddef>
#include <mutex>
#include <new>

#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::detail {

/// Keeps freed blocks of one size for the next allocation, so that the events of a steady stream of
/// commands never reach the heap. Process-wide, thread-safe, bounded.
template <std::size_t Bytes>
class BlockPool {
 public:
  static BlockPool& instance() {
    static auto* const pool = new BlockPool;  // never destroyed: events may outlive statics
    return *pool;
  }
  void* take() {
    {
      const std::lock_guard guard(lock_);
      if (first_ != nullptr) {
        Block* const block = first_;
        first_ = block->next;
        --count_;
        return block;
      }
    }
    return ::operator new(kBytes);
  }
  void give(void* memory) noexcept {
    {
      const std::lock_guard guard(lock_);
      if (count_ < kMostKept) {
        first_ = new (memory) Block{first_};
        ++count_;
        return;
      }
    }
    ::operator delete(memory);
  }

 private:
  struct Block {
    Block* next;
  };
  static constexpr std::size_t kBytes = Bytes < sizeof(Block) ? sizeof(Block) : Bytes;
  static constexpr int kMostKept = 4096;

  SpinLock lock_;
  Block* first_ = nullptr;
  int count_ = 0;
};

/// An allocator of single objects on a BlockPool, for std::allocate_shared.
template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) {}  // NOLINT: as allocators must

  T* allocate(std::size_t count) {
    if (count != 1) {
      throw std::bad_alloc();
    }
    return static_cast<T*>(BlockPool<sizeof(T)>::instance().take());
  }
  void deallocate(T* memory, std::size_t) noexcept {
    BlockPool<sizeof(T)>::instance().give(memory);
  }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }
};

}  // namespace tilemesh::detail
