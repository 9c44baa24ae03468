#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilemesh/ops/op.hpp"

#include "nest.hpp"
#include "strided_copy.hpp"

namespace tilemesh::cpu::highway {

/// One loop of a copy between two tensors, over their logical indices: `size` steps of `from_step`
/// along the source's dim and `to_step` along the target's. A dim of -1 stands still.
struct Span {
  std::int64_t size = 1;
  int from_dim = -1;
  std::int64_t from_step = 1;
  int to_dim = -1;
  std::int64_t to_step = 1;
};

/// Which elements go where: loops from a first index on each side.
struct Region {
  std::vector<Span> spans;
  Dims from_start;
  Dims to_start;

  /// Everything, index by index, for two tensors of one rank; its parts are there to be changed.
  static Region whole(const Shape& shape);
};

/// A region between two layouts of one dtype, as copies between places in memory.
class RegionCopy {
 public:
  /// Throws Unsplittable if a span walks along a blocked dim in steps other than 1, or several do.
  RegionCopy(const OperandType& from, const OperandType& to, const Region& region);

  void run(const std::byte* from, std::byte* to, int threads) const;
  /// How many of so many threads run() makes use of.
  int threads(int device_threads) const;

  struct Unsplittable {
    std::string reason;
  };

 private:
  struct Part {
    std::int64_t from_offset = 0;  // in bytes
    std::int64_t to_offset = 0;
    StridedCopy copy;
  };
  std::vector<Part> parts_;
};

}  // namespace tilemesh::cpu::highway
