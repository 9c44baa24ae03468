#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

/// A small vector of at most N elements that never allocates: the storage of shapes, coordinates
/// and layouts, which are copied on the hot path. Growing past N throws invalid_argument.
template <class T, std::size_t N>
class InlineVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  constexpr InlineVector() = default;
  constexpr InlineVector(std::initializer_list<T> values) { append(values.begin(), values.end()); }
  template <class Iterator>
  constexpr InlineVector(Iterator first, Iterator last) {
    append(first, last);
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + size_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr T& back() { return items_[size_ - 1]; }
  constexpr const T& back() const { return items_[size_ - 1]; }
  constexpr operator std::span<const T>() const { return {items_.data(), size_}; }  // NOLINT

  constexpr void push_back(const T& value) {
    if (size_ == N) [[unlikely]] {
      throw Error(ErrorCode::invalid_argument,
                  "more than " + std::to_string(N) + " dims, axes or blocks are not supported");
    }
    items_[size_++] = value;
  }
  constexpr void resize(std::size_t count, const T& value = T{}) {
    while (size_ > count) {
      items_[--size_] = T{};
    }
    while (size_ < count) {
      push_back(value);
    }
  }
  constexpr void insert(std::size_t at, const T& value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  constexpr void erase(std::size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    items_[--size_] = T{};
  }
  constexpr void clear() { resize(0); }

  friend constexpr bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  template <class Iterator>
  constexpr void append(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      push_back(static_cast<T>(*first));
    }
  }

  std::array<T, N> items_{};
  std::size_t size_ = 0;
};

}  // namespace tilemesh
