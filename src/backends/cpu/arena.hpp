#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tilemesh::cpu {

/// One space of one device: a range of addresses, reserved once, that gets memory when it is
/// touched. The first touch of a 4 KiB page costs as much as writing 100 KiB, so commit() takes
/// memory ahead and in huge pages.
class Arena {
 public:
  /// `number` tells arenas apart that are used together: equal offsets in them lie in different
  /// sets of the caches. Throws mismatch if the system refuses so large a range.
  explicit Arena(std::int64_t bytes, int number = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  /// Backs the range with memory; what was there stays. Advice: a refusal is no error. Thread-safe.
  void commit(std::int64_t offset, std::int64_t bytes);

 private:
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::byte* chunks_ = nullptr;  // the first huge page
  std::byte* data_ = nullptr;    // some pages into it
  std::int64_t bytes_ = 0;
  std::mutex mutex_;
  std::vector<bool> committed_;  // by chunk of a huge page's size
};

}  // namespace tilemesh::cpu
