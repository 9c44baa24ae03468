#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/cpu/arena.hpp"

namespace tilemesh::cpu {

/// Memory that the kernels of a program use in turn, 64-byte aligned and touched ahead.
class Scratch {
 public:
  /// Drops what was there.
  void resize(std::int64_t bytes);
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> small_;
  std::optional<Arena> large_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace tilemesh::cpu
