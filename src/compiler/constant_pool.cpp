#include "compiler/constant_pool.hpp"

#include <algorithm>

#include "tilemesh/base/math.hpp"
#include "tilemesh/types/strided.hpp"

#include "compiler/hash.hpp"

namespace tilemesh {

ConstantPool::Entry ConstantPool::add(const ConstantData& data, const Layout& layout) {
  std::span<const std::byte> bytes = *data.bytes;
  std::vector<std::byte> packed;
  if (!layout.is_rows()) {
    packed.resize(static_cast<std::size_t>(layout.bytes(data.shape, size_of(data.dtype))));
    relayout(data.bytes->data(), data.dtype, Layout::rows(), packed.data(), data.dtype, layout,
             data.shape);
    bytes = packed;
  }
  const std::uint64_t hash = hash_bytes(bytes);
  const auto [first, last] = entries_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const auto same = std::span(section_).subspan(it->second.offset, it->second.bytes);
    if (std::ranges::equal(same, bytes)) return it->second;
  }
  section_.resize(round_up<std::size_t>(section_.size(), 64));
  const Entry entry{section_.size(), bytes.size(), hash};
  section_.insert(section_.end(), bytes.begin(), bytes.end());
  entries_.emplace(hash, entry);
  return entry;
}

}  // namespace tilemesh
