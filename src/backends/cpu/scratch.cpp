#include "backends/cpu/scratch.hpp"

#include <cstring>
#include <new>

namespace tilemesh::cpu {

namespace {

constexpr std::int64_t kLarge = std::int64_t{512} << 10;  // worth a huge page
constexpr std::align_val_t kAlignment{64};

}  // namespace

void Scratch::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kAlignment);
}

void Scratch::resize(std::int64_t bytes) {
  small_.reset();
  large_.reset();
  data_ = nullptr;
  bytes_ = bytes;
  if (bytes >= kLarge) {
    large_.emplace(bytes);
    large_->commit(0, bytes);
    data_ = large_->data();
  } else if (bytes > 0) {
    const auto size = static_cast<std::size_t>(bytes);
    small_.reset(static_cast<std::byte*>(::operator new(size, kAlignment)));
    data_ = small_.get();
    std::memset(data_, 0, size);
  }
}

}  // namespace tilemesh::cpu
