#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/host_exchange.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh::detail {

namespace {

using Kind = Placement::Kind;

constexpr std::int64_t kCacheLine = 64;
/// Of a shard, from where on writing past the caches was measured to be faster.
constexpr std::int64_t kStreamBytes = std::int64_t{4} << 20;

int number_of(const std::vector<int>& numbers, int index) {
  return numbers.empty() ? index : numbers[static_cast<std::size_t>(index)];
}

/// Where a member stands in a mesh; none if it doesn't.
std::optional<int> index_of(const std::vector<int>& numbers, const MeshShape& mesh, int member) {
  if (numbers.empty()) {
    return member < mesh.device_count() ? std::optional(member) : std::nullopt;
  }
  const auto found = std::ranges::find(numbers, member);
  if (found == numbers.end()) {
    return std::nullopt;
  }
  return static_cast<int>(found - numbers.begin());
}

void check_members(const std::vector<int>& numbers, const MeshShape& mesh, int size) {
  const bool right = numbers.empty() ? mesh.device_count() <= size
                                     : std::cmp_equal(numbers.size(), mesh.device_count()) &&
                                           std::ranges::all_of(numbers, [size](int number) {
                                             return number >= 0 && number < size;
                                           });
  if (!right) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a collective on mesh {} within a group of {} devices: name one of them "
                    "for each coordinate",
                    mesh.to_string(), size));
  }
}

/// Whether elements keep their places, each being reduced at most.
bool only_reduces(const Exchange& exchange) {
  const TensorSpec& from = exchange.from;
  const TensorSpec& to = exchange.to;
  if (!(from.mesh == to.mesh) || exchange.members.from != exchange.members.to ||
      !(from.layout == to.layout) || from.layout.is_opaque()) {
    return false;
  }
  for (int axis = 0; axis < to.mesh.axes(); ++axis) {
    const bool reduced =
        from.placement(axis).kind() == Kind::partial && to.placement(axis).is_replicate();
    if (!reduced && !(from.placement(axis) == to.placement(axis))) {
      return false;
    }
  }
  return true;
}

bool reduces(const TensorSpec& from, const TensorSpec& to) {
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    const bool stays = axis < to.mesh.axes() && to.placement(axis).kind() == Kind::partial;
    if (from.placement(axis).kind() == Kind::partial && !stays) {
      return true;
    }
  }
  return false;
}

/// The row-major indices of those who have the coordinates of `index` but on the axes that change.
std::vector<int> group_of(const TensorSpec& from, const TensorSpec& to, int index) {
  const MeshCoord own = from.mesh.coord_of(index);
  std::vector<int> group;
  for (int other = 0; other < from.mesh.device_count(); ++other) {
    const MeshCoord coord = from.mesh.coord_of(other);
    bool same = true;
    for (int axis = 0; axis < from.mesh.axes(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      same = same && (coord[a] == own[a] || !(from.placement(axis) == to.placement(axis)));
    }
    if (same) {
      group.push_back(other);
    }
  }
  return group;
}

/// Whether any device's shard has elements beyond its extent.
bool any_is_short(const TensorSpec& spec) {
  const Shape shard = spec.shard_shape();
  for (int i = 0; i < spec.mesh.device_count(); ++i) {
    const Extents extents = spec.extents(spec.mesh.coord_of(i));
    for (int dim = 0; dim < shard.rank(); ++dim) {
      if (extents[static_cast<std::size_t>(dim)].size < shard[dim]) {
        return true;
      }
    }
  }
  return false;
}

/// Whether any device needs what only another has; asked from `first` on, which mostly decides.
bool any_needs_others(const Exchange& exchange, int first) {
  const int count = exchange.to.mesh.device_count();
  for (int i = 0; i < count; ++i) {
    const int target = (first + i) % count;
    const int number = number_of(exchange.members.to, target);
    for (const ShardPiece& piece :
         pieces_for(exchange.from, exchange.to, target, exchange.members)) {
      if (std::ranges::any_of(piece.sources, [&](int source) {
            return number_of(exchange.members.from, source) != number;
          })) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

HostExchange::HostExchange(const ExchangePart& part, std::shared_ptr<HostPeers> peers,
                           FindReduction find)
    : peers_(std::move(peers)) {
  TILEMESH_CHECK(part.exchange != nullptr && part.communicator != nullptr,
                 "a collective without its exchange or communicator");
  const Exchange& exchange = *part.exchange;
  const Communicator& group = *part.communicator;
  exchange.from.check();
  exchange.to.check();
  check_redistribution(exchange.from, exchange.to);
  check_members(exchange.members.from, exchange.from.mesh, group.size());
  check_members(exchange.members.to, exchange.to.mesh, group.size());
  element_bytes_ = size_of(exchange.to.dtype);
  neutral_ = neutral_element(exchange.fill, exchange.to.dtype);
  if (reduces(exchange.from, exchange.to)) {
    reduce_ = find(reduction_between(exchange.from, exchange.to), exchange.to.dtype);
  }
  if (only_reduces(exchange)) {
    flat_ = true;
    plan_all_reduce(part);
  } else {
    plan_pull(part);
  }
}

void HostExchange::plan_all_reduce(const ExchangePart& part) {
  const Exchange& exchange = *part.exchange;
  const auto index = index_of(exchange.members.to, exchange.to.mesh, part.member);
  const std::vector<int> group = group_of(exchange.from, exchange.to, index.value_or(0));
  meets_ = group.size() > 1;
  any_finishes_ = any_is_short(exchange.to);
  if (!index) {
    return;
  }
  for (const int member : group) {
    sources_.push_back(number_of(exchange.members.from, member));
  }
  const auto count = static_cast<std::int64_t>(group.size());
  const auto own = std::ranges::find(group, *index) - group.begin();
  const std::int64_t bytes = exchange.to.layout.bytes(exchange.to.shard_shape(), element_bytes_);
  // Many members: a line or two of each would be fetched from everywhere, and nothing ahead.
  const std::int64_t least = std::max<std::int64_t>(1, count / 4) * kCacheLine;
  const std::int64_t each = round_up(std::max(ceil_div(bytes, count), least), kCacheLine);
  slice_begin_ = std::min(bytes, own * each);
  slice_bytes_ = std::min(bytes, slice_begin_ + each) - slice_begin_;
  streams_ = bytes >= kStreamBytes;
  plan_fill(exchange.to, *index, finish_);
}

void HostExchange::plan_pull(const ExchangePart& part) {
  const Exchange& exchange = *part.exchange;
  const TensorSpec& from = exchange.from;
  const TensorSpec& to = exchange.to;
  if (!from.layout.is_rows() || !to.layout.is_rows()) {
    const auto text = [](const TensorSpec& spec) {
      return spec.layout.to_string(spec.shape.rank());
    };
    throw Error(ErrorCode::unsupported,
                fmt::format("a collective from layout {} to {}: elements change places, which "
                            "needs rows on both sides; convert before or after",
                            text(from), text(to)));
  }
  const auto index = index_of(exchange.members.to, to.mesh, part.member);
  meets_ = any_needs_others(exchange, index.value_or(0));
  if (!index) {
    return;
  }
  // A member that has no shard of the source may have anything at its address.
  if (index_of(exchange.members.from, from.mesh, part.member)) {
    source_bytes_ = from.layout.bytes(from.shard_shape(), element_bytes_);
  }
  target_bytes_ = to.layout.bytes(to.shard_shape(), element_bytes_);
  for (const ShardPiece& piece : pieces_for(from, to, *index, exchange.members)) {
    Box box = make_box(from.shard_shape().sizes(), piece.source_begin, to.shard_shape().sizes(),
                       piece.target_begin, piece.sizes, element_bytes_);
    box.first_source = sources_.size();
    box.source_count = piece.sources.size();
    for (const int source : piece.sources) {
      sources_.push_back(number_of(exchange.members.from, source));
    }
    pulls_.push_back(box);
  }
  plan_fill(to, *index, fills_);
}

HostExchange::Box HostExchange::make_box(const Dims& source_shape, const Dims& source_begin,
                                         const Dims& target_shape, const Dims& target_begin,
                                         const Dims& sizes, std::int64_t element_bytes) {
  const Dims source_strides = row_major_strides(Shape(source_shape));
  const Dims target_strides = row_major_strides(Shape(target_shape));
  Box box;
  Dims counts;  // innermost first
  Dims sources;
  Dims targets;
  std::int64_t run = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    box.source_offset += source_begin[d] * source_strides[d] * element_bytes;
    box.target_offset += target_begin[d] * target_strides[d] * element_bytes;
    if (sizes[d] == 1) {
      continue;
    }
    if (counts.empty() && source_strides[d] == run && target_strides[d] == run) {
      run *= sizes[d];
    } else if (!counts.empty() &&
               source_strides[d] * element_bytes == counts.back() * sources.back() &&
               target_strides[d] * element_bytes == counts.back() * targets.back()) {
      counts.back() *= sizes[d];
    } else {
      counts.push_back(sizes[d]);
      sources.push_back(source_strides[d] * element_bytes);
      targets.push_back(target_strides[d] * element_bytes);
    }
  }
  box.run_bytes = run * element_bytes;
  box.counts = Dims(std::reverse_iterator(counts.end()), std::reverse_iterator(counts.begin()));
  box.source_strides =
      Dims(std::reverse_iterator(sources.end()), std::reverse_iterator(sources.begin()));
  box.target_strides =
      Dims(std::reverse_iterator(targets.end()), std::reverse_iterator(targets.begin()));
  return box;
}

/// What lies beyond the extent of a shard, dim by dim: beyond it there, within it in the dims
/// before. A blocked layout's own padding stays as it is.
void HostExchange::plan_fill(const TensorSpec& to, int index, std::vector<Box>& boxes) const {
  const Extents extents = to.extents(to.mesh.coord_of(index));
  const Shape shard = to.shard_shape();
  if (shard.element_count() == 0) {
    return;
  }
  Dims sizes = shard.sizes();
  Dims begin;
  begin.resize(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t valid = extents[d].size;
    if (valid < sizes[d]) {
      begin[d] = valid;
      sizes[d] -= valid;
      if (std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; })) {
        add_fill(to.layout, shard, begin, sizes, boxes);
      }
      begin[d] = 0;
    }
    sizes[d] = valid;
  }
}

void HostExchange::add_fill(const Layout& layout, const Shape& shard, const Dims& begin,
                            const Dims& sizes, std::vector<Box>& boxes) const {
  if (layout.is_rows()) {
    boxes.push_back(make_box(shard.sizes(), begin, shard.sizes(), begin, sizes, element_bytes_));
    return;
  }
  // Element by element, put together where they follow each other.
  std::vector<std::int64_t> offsets;
  Dims index = begin;
  for (std::int64_t i = 0; i < Shape(sizes).element_count(); ++i) {
    offsets.push_back(element_offset(layout, shard, index));
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < begin[d] + sizes[d]) {
        break;
      }
      index[d] = begin[d];
    }
  }
  std::ranges::sort(offsets);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (i > 0 && offsets[i] == offsets[i - 1] + 1) {
      boxes.back().run_bytes += element_bytes_;
      continue;
    }
    Box box;
    box.target_offset = offsets[i] * element_bytes_;
    box.run_bytes = element_bytes_;
    boxes.push_back(box);
  }
}

}  // namespace tilemesh::detail
