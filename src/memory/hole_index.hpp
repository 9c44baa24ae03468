#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tilemesh/memory/allocator.hpp"

namespace tilemesh::detail {

/// Holes in the order of `Less`, no two equal, as a list of short sorted pieces: a search takes no
/// branch that depends on what is compared, and a change moves the rest of one piece, whatever the
/// number of holes. Keeps the room of its list. A change invalidates iterators.
template <class Less>
class HoleIndex {
  static constexpr std::size_t kMost = 64;  // holes of a piece: a KiB, moved in some ten ns
  struct Piece {
    std::size_t count = 0;
    std::array<ByteRange, kMost> holes;
    const ByteRange& last() const { return holes[count - 1]; }
  };

 public:
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = ByteRange;
    using difference_type = std::ptrdiff_t;
    using pointer = const ByteRange*;
    using reference = const ByteRange&;

    Iterator() = default;
    reference operator*() const { return piece_->holes[at_]; }
    pointer operator->() const { return &piece_->holes[at_]; }
    Iterator& operator++() {
      if (++at_ == piece_->count) {
        ++piece_;
        at_ = 0;
      }
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator& operator--() {
      if (at_ == 0) {
        --piece_;
        at_ = piece_->count;
      }
      --at_;
      return *this;
    }
    Iterator operator--(int) {
      const Iterator before = *this;
      --*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend class HoleIndex;
    Iterator(const Piece* piece, std::size_t at) : piece_(piece), at_(at) {}
    const Piece* piece_ = nullptr;
    std::size_t at_ = 0;
  };

  bool empty() const { return pieces_.empty(); }
  Iterator begin() const { return {pieces_.data(), 0}; }
  Iterator end() const { return {pieces_.data() + pieces_.size(), 0}; }
  /// The last in order; requires that there is one.
  const ByteRange& back() const { return pieces_.back().last(); }
  friend bool operator==(const HoleIndex& a, const HoleIndex& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  /// The first that isn't less than `hole`.
  Iterator lower_bound(const ByteRange& hole) const {
    const std::size_t piece =
        count_less(pieces_.size(), [&](std::size_t i) { return Less()(pieces_[i].last(), hole); });
    return piece == pieces_.size() ? end() : Iterator(&pieces_[piece], place_in(piece, hole));
  }

  void insert(const ByteRange& hole) {
    if (pieces_.empty()) pieces_.emplace_back();
    std::size_t piece = count_less(pieces_.size() - 1,
                                   [&](std::size_t i) { return Less()(pieces_[i].last(), hole); });
    if (pieces_[piece].count == kMost) {
      halve(piece);
      if (Less()(pieces_[piece].last(), hole)) ++piece;
    }
    Piece& into = pieces_[piece];
    const auto at = into.holes.begin() + static_cast<std::ptrdiff_t>(place_in(piece, hole));
    const auto last = into.holes.begin() + static_cast<std::ptrdiff_t>(into.count++);
    std::move_backward(at, last, last + 1);
    *at = hole;
  }

  void erase(Iterator hole) {
    const std::size_t piece = number_of(hole);
    Piece& from = pieces_[piece];
    const auto at = from.holes.begin() + static_cast<std::ptrdiff_t>(hole.at_);
    std::move(at + 1, from.holes.begin() + static_cast<std::ptrdiff_t>(from.count), at);
    if (--from.count == 0) {
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(piece));
    } else if (piece + 1 < pieces_.size() && from.count + pieces_[piece + 1].count < kMost / 2) {
      join_next(piece);
    }
  }

  /// Puts another in its place, which must be that one's too.
  void replace(Iterator hole, const ByteRange& by) {
    pieces_[number_of(hole)].holes[hole.at_] = by;
  }

 private:
  /// How many of 0 to count-1 are less, given that these come first.
  template <class IsLess>
  static std::size_t count_less(std::size_t count, const IsLess& is_less) {
    std::size_t first = 0;
    while (count > 0) {
      const std::size_t half = (count + 1) / 2;
      first += is_less(first + half - 1) ? half : 0;
      count -= half;
    }
    return first;
  }
  std::size_t place_in(std::size_t piece, const ByteRange& hole) const {
    const Piece& in = pieces_[piece];
    return count_less(in.count, [&](std::size_t i) { return Less()(in.holes[i], hole); });
  }
  std::size_t number_of(Iterator hole) const {
    return static_cast<std::size_t>(hole.piece_ - pieces_.data());
  }

  void halve(std::size_t piece) {
    pieces_.emplace(pieces_.begin() + static_cast<std::ptrdiff_t>(piece) + 1);
    Piece& low = pieces_[piece];
    Piece& high = pieces_[piece + 1];
    const auto middle = low.holes.begin() + kMost / 2;
    std::copy(middle, low.holes.end(), high.holes.begin());
    low.count = high.count = kMost / 2;
  }

  void join_next(std::size_t piece) {
    Piece& low = pieces_[piece];
    const Piece& high = pieces_[piece + 1];
    std::copy_n(high.holes.begin(), high.count,
                low.holes.begin() + static_cast<std::ptrdiff_t>(low.count));
    low.count += high.count;
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(piece) + 1);
  }

  std::vector<Piece> pieces_;  // none is empty
};

}  // namespace tilemesh::detail
