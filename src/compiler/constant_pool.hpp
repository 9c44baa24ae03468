#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

/// The constants section of a binary in the making: each content once, 64-byte aligned.
class ConstantPool {
 public:
  struct Entry {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;
  };

  /// Stores a constant as `spec` says: its shards one after another, each in the layout with zeros
  /// beyond its extent, in row-major order of the coordinates along the axes that cut it.
  Entry add(const ConstantData& data, const TensorSpec& spec);
  std::vector<std::byte> take() { return std::move(section_); }
  std::span<const std::byte> section() const { return section_; }

 private:
  std::vector<std::byte> section_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;
};

}  // namespace tilemesh
