#include "tilemesh/types/redistribution.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

using Kind = Placement::Kind;

constexpr std::array<std::string_view, 8> kMovementNames = {
    "none",           "slice",      "all_gather", "all_to_all",
    "reduce_scatter", "all_reduce", "permute",    "mixed"};

bool is_partial(const Placement& placement) {
  return placement.kind() == Kind::partial;
}

bool stays_partial(const TensorSpec& to, int axis) {
  return axis < to.mesh.axes() && is_partial(to.placement(axis));
}

int number_of(const std::vector<int>& numbers, int index) {
  return numbers.empty() ? index : numbers[static_cast<std::size_t>(index)];
}

/// The devices of `from` that hold what one target needs, found axis by axis.
class SourceSearch {
 public:
  SourceSearch(const TensorSpec& from, const TensorSpec& to, int target,
               const DeviceNumbers& numbers)
      : from_(from),
        to_(to),
        target_(target),
        same_shape_(from.mesh == to.mesh),
        coord_(to.mesh.coord_of(target)),
        region_(to.extents(coord_)) {
    own_ = own_index(numbers);
    if (own_) own_coord_ = from.mesh.coord_of(*own_);
  }

  std::vector<ShardPiece> run() {
    if (std::ranges::any_of(region_, [](const Extent& extent) { return extent.size == 0; })) {
      return {};
    }
    MeshCoord coord;
    visit(coord);
    return std::move(pieces_);
  }

 private:
  std::optional<int> own_index(const DeviceNumbers& numbers) const {
    const int number = number_of(numbers.to, target_);
    if (numbers.from.empty()) {
      return number < from_.mesh.device_count() ? std::optional(number) : std::nullopt;
    }
    const auto found = std::ranges::find(numbers.from, number);
    if (found == numbers.from.end()) return std::nullopt;
    return static_cast<int>(found - numbers.from.begin());
  }

  // Coordinates along shard axes are all visited, those along the others are chosen.
  void visit(MeshCoord& coord) {
    const int axis = static_cast<int>(coord.size());
    if (axis == from_.mesh.axes()) {
      add(coord);
      return;
    }
    const std::int32_t size = from_.mesh[axis];
    if (from_.placement(axis).is_shard()) {
      for (std::int32_t i = 0; i < size; ++i) {
        coord.push_back(i);
        visit(coord);
        coord.resize(coord.size() - 1);
      }
      return;
    }
    coord.push_back(chosen(axis, size));
    visit(coord);
    coord.resize(coord.size() - 1);
  }

  std::int32_t chosen(int axis, std::int32_t size) const {
    const auto a = static_cast<std::size_t>(axis);
    if (is_partial(from_.placement(axis)) && !stays_partial(to_, axis)) return 0;  // all, later
    if (same_shape_ && stays_partial(to_, axis)) return coord_[a];
    if (own_) return own_coord_[a];
    return same_shape_ ? coord_[a] : target_ % size;
  }

  void add(const MeshCoord& coord) {
    const Extents held = from_.extents(coord);
    ShardPiece piece;
    for (std::size_t d = 0; d < held.size(); ++d) {
      const std::int64_t begin = std::max(held[d].begin, region_[d].begin);
      const std::int64_t end =
          std::min(held[d].begin + held[d].size, region_[d].begin + region_[d].size);
      if (begin >= end) return;
      piece.source_begin.push_back(begin - held[d].begin);
      piece.target_begin.push_back(begin - region_[d].begin);
      piece.sizes.push_back(end - begin);
    }
    MeshCoord member = coord;
    add_members(piece, member, 0);
    pieces_.push_back(std::move(piece));
  }

  // All coordinates along the axes that are reduced, in row-major order.
  void add_members(ShardPiece& piece, MeshCoord& coord, int axis) {
    if (axis == from_.mesh.axes()) {
      piece.sources.push_back(from_.mesh.index_of(coord));
      return;
    }
    if (!is_partial(from_.placement(axis)) || stays_partial(to_, axis)) {
      add_members(piece, coord, axis + 1);
      return;
    }
    for (std::int32_t i = 0; i < from_.mesh[axis]; ++i) {
      coord[static_cast<std::size_t>(axis)] = i;
      add_members(piece, coord, axis + 1);
    }
    coord[static_cast<std::size_t>(axis)] = 0;
  }

  const TensorSpec& from_;
  const TensorSpec& to_;
  int target_;
  bool same_shape_;
  MeshCoord coord_;
  Extents region_;
  std::optional<int> own_;
  MeshCoord own_coord_;
  std::vector<ShardPiece> pieces_;
};

Movement movement_along(const Placement& from, const Placement& to) {
  if (from == to) return Movement::none;
  if (is_partial(from)) return to.is_shard() ? Movement::reduce_scatter : Movement::all_reduce;
  if (from.is_replicate()) return Movement::slice;
  return to.is_shard() ? Movement::all_to_all : Movement::all_gather;
}

}  // namespace

void check_redistribution(const TensorSpec& from, const TensorSpec& to) {
  if (!(from.shape == to.shape) || from.dtype != to.dtype) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}{} can't be redistributed into {}{}: shape and dtype stay",
                            to_string(from.dtype), from.shape.to_string(), to_string(to.dtype),
                            to.shape.to_string()));
  }
  for (int axis = 0; axis < to.mesh.axes(); ++axis) {
    if (!is_partial(to.placement(axis))) continue;
    if (!(from.mesh == to.mesh) || !(from.placement(axis) == to.placement(axis))) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("a tensor that is {} on mesh {} can't become {} on mesh {}: only "
                              "programs make parts of a reduction; replicate or shard it instead",
                              placements_to_string(from), from.mesh.to_string(),
                              placements_to_string(to), to.mesh.to_string()));
    }
  }
}

ReduceOp reduction_between(const TensorSpec& from, const TensorSpec& to) {
  std::optional<ReduceOp> op;
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    const Placement placement = from.placement(axis);
    if (!is_partial(placement) || stays_partial(to, axis)) continue;
    if (op && *op != placement.op()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} is reduced in two ways at once: reduce one axis after the other",
                              placements_to_string(from)));
    }
    op = placement.op();
  }
  TILEMESH_CHECK(op.has_value(), "no axis is reduced");
  return *op;
}

std::vector<ShardPiece> pieces_for(const TensorSpec& from, const TensorSpec& to, int target,
                                   const DeviceNumbers& numbers) {
  return SourceSearch(from, to, target, numbers).run();
}

std::int64_t bytes_received(const TensorSpec& from, const TensorSpec& to, int target,
                            const DeviceNumbers& numbers) {
  std::int64_t elements = 0;
  for (const ShardPiece& piece : pieces_for(from, to, target, numbers)) {
    const auto others = std::ranges::count_if(piece.sources, [&](int source) {
      return number_of(numbers.from, source) != number_of(numbers.to, target);
    });
    elements += others * Shape(piece.sizes).element_count();
  }
  return elements * size_of(from.dtype);
}

std::string_view to_string(Movement movement) {
  return kMovementNames.at(static_cast<std::size_t>(movement));
}

Movement movement_between(const TensorSpec& from, const TensorSpec& to) {
  Movement movement = Movement::none;
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    const Movement along = movement_along(from.placement(axis), to.placement(axis));
    if (along == Movement::none || along == movement || from.mesh[axis] == 1) continue;
    if (movement != Movement::none) return Movement::mixed;
    movement = along;
  }
  return movement;
}

namespace {

std::int64_t cost_bytes_of(const ReshardStep& step) {
  constexpr std::int64_t kMeetingBytes = 4096;
  return step.bytes + (step.movement == Movement::slice ? 0 : kMeetingBytes);
}

/// The device that receives most; a few stand for many, since shards are alike.
std::int64_t most_received(const TensorSpec& from, const TensorSpec& to) {
  constexpr int kSome = 16;
  const int count = to.mesh.device_count();
  std::int64_t most = 0;
  for (int i = 0; i < count; i += std::max(1, count / kSome)) {
    most = std::max(most, bytes_received(from, to, i));
  }
  return most;
}

/// All-reduce by shards: each device reduces one of k parts and sends it to the others.
std::int64_t all_reduce_bytes(const TensorSpec& from, const TensorSpec& to) {
  std::int64_t members = 1;
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    if (!(from.placement(axis) == to.placement(axis))) members *= from.mesh[axis];
  }
  const std::int64_t bytes = from.shard_shape().element_count() * size_of(from.dtype);
  return 2 * (bytes - bytes / members);
}

class ReshardSearch {
 public:
  ReshardSearch(const TensorSpec& from, const TensorSpec& to) : to_(to) {
    for (int axis = 0; axis < from.mesh.axes(); ++axis) {
      if (!(from.placement(axis) == to.placement(axis))) axes_.push_back(axis);
    }
    ReshardPlan plan;
    extend(plan, from, axes_, 0);
  }

  ReshardPlan take() { return std::move(best_); }

 private:
  // Every ordered way to change the axes that are left, in groups.
  void extend(ReshardPlan& plan, const TensorSpec& now, const std::vector<int>& left,
              std::int64_t cost) {
    if (best_cost_ >= 0 && cost >= best_cost_) return;
    if (left.empty()) {
      best_ = plan;
      best_cost_ = cost;
      return;
    }
    for (unsigned subset = (1U << left.size()) - 1; subset != 0; --subset) {
      std::vector<int> changed;
      std::vector<int> rest;
      for (std::size_t i = 0; i < left.size(); ++i) {
        ((subset >> i & 1U) != 0 ? changed : rest).push_back(left[i]);
      }
      if (const auto step = step_of(now, changed)) {
        plan.steps.push_back(*step);
        extend(plan, step->to, rest, cost + cost_bytes_of(*step));
        plan.steps.pop_back();
      }
    }
  }

  // None where the axes are reduced in different ways.
  std::optional<ReshardStep> step_of(const TensorSpec& now, const std::vector<int>& changed) const {
    ReshardStep step;
    step.axes = changed;
    step.from = now;
    step.to = now;
    if (step.to.placements.empty())
      step.to.placements.resize(static_cast<std::size_t>(now.mesh.axes()));
    std::optional<ReduceOp> op;
    for (const int axis : changed) {
      const Placement before = now.placement(axis);
      if (is_partial(before) && op.value_or(before.op()) != before.op()) return std::nullopt;
      if (is_partial(before)) op = before.op();
      step.to.placements[static_cast<std::size_t>(axis)] = to_.placement(axis);
    }
    step.movement = movement_between(step.from, step.to);
    step.bytes = step.movement == Movement::all_reduce ? all_reduce_bytes(step.from, step.to)
                                                       : most_received(step.from, step.to);
    return step;
  }

  const TensorSpec& to_;
  std::vector<int> axes_;
  ReshardPlan best_;
  std::int64_t best_cost_ = -1;
};

}  // namespace

ReshardPlan plan_reshard(const TensorSpec& from, const TensorSpec& to) {
  if (!(from.mesh == to.mesh)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a plan is for one mesh, and these are {} and {}",
                            from.mesh.to_string(), to.mesh.to_string()));
  }
  check_redistribution(from, to);
  return ReshardSearch(from, to).take();
}

std::string placements_to_string(const TensorSpec& spec) {
  std::string text = "(";
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    text += fmt::format("{}{}", axis == 0 ? "" : ", ", spec.placement(axis).to_string());
  }
  return text + ")";
}

std::string ReshardStep::to_string() const {
  return fmt::format("{} over {} {}: {}{} {} -> {}, {} bytes a device",
                     tilemesh::to_string(movement), axes.size() == 1 ? "axis" : "axes",
                     fmt::join(axes, ", "), tilemesh::to_string(from.dtype), from.shape.to_string(),
                     placements_to_string(from), placements_to_string(to), bytes);
}

std::int64_t ReshardPlan::bytes() const {
  std::int64_t sum = 0;
  for (const ReshardStep& step : steps)
    sum += step.bytes;
  return sum;
}

std::int64_t ReshardPlan::cost_bytes() const {
  std::int64_t sum = 0;
  for (const ReshardStep& step : steps)
    sum += cost_bytes_of(step);
  return sum;
}

std::string ReshardPlan::to_string() const {
  if (steps.empty()) return "nothing to do";
  std::string text;
  for (const ReshardStep& step : steps) {
    text += (text.empty() ? "" : "\n") + step.to_string();
  }
  return text;
}

}  // namespace tilemesh
