#include "tilemesh/types/redistribution.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

using Values = std::vector<std::int64_t>;

/// One shard per device, in row-major order of the shard shape; what isn't valid stays -1.
struct Shards {
  TensorSpec spec;
  std::vector<Values> values;
};

std::int64_t offset_in(const Shape& shape, const Dims& index) {
  std::int64_t offset = 0;
  for (int d = 0; d < shape.rank(); ++d)
    offset = offset * shape[d] + index[static_cast<std::size_t>(d)];
  return offset;
}

template <class Visit>
void for_each_index(const Dims& sizes, const Visit& visit) {
  const std::int64_t count = Shape(sizes).element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    Dims index;
    index.resize(sizes.size());
    std::int64_t rest = i;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    visit(index);
  }
}

Dims plus(const Dims& a, const Dims& b) {
  Dims sum = a;
  for (std::size_t d = 0; d < sum.size(); ++d)
    sum[d] += b[d];
  return sum;
}

/// The part that device `index` of a partial axis adds; the parts of all sum up to the element.
std::int64_t part_of(const TensorSpec& spec, int index, std::int64_t element) {
  const MeshCoord coord = spec.mesh.coord_of(index);
  std::int64_t parts = 1;
  bool first = true;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).kind() != Placement::Kind::partial) continue;
    parts *= spec.mesh[axis];
    first = first && coord[static_cast<std::size_t>(axis)] == 0;
  }
  return first ? element - 7 * (parts - 1) : 7;
}

Shards lie(const TensorSpec& spec) {
  Shards shards{spec, {}};
  for (int i = 0; i < spec.mesh.device_count(); ++i) {
    const Shape shard = spec.shard_shape();
    Values values(static_cast<std::size_t>(shard.element_count()), -1);
    const Extents extents = spec.extents(spec.mesh.coord_of(i));
    Dims begin;
    Dims sizes;
    for (const Extent& extent : extents) {
      begin.push_back(extent.begin);
      sizes.push_back(extent.size);
    }
    for_each_index(sizes, [&](const Dims& index) {
      values[static_cast<std::size_t>(offset_in(shard, index))] =
          part_of(spec, i, offset_in(spec.shape, plus(begin, index)));
    });
    shards.values.push_back(std::move(values));
  }
  return shards;
}

Shards redistribute(const Shards& source, const TensorSpec& to) {
  Shards target{to, {}};
  const Shape from_shard = source.spec.shard_shape();
  const Shape to_shard = to.shard_shape();
  for (int i = 0; i < to.mesh.device_count(); ++i) {
    Values values(static_cast<std::size_t>(to_shard.element_count()), -1);
    for (const ShardPiece& piece : pieces_for(source.spec, to, i)) {
      for_each_index(piece.sizes, [&](const Dims& index) {
        std::int64_t& value =
            values[static_cast<std::size_t>(offset_in(to_shard, plus(piece.target_begin, index)))];
        EXPECT_EQ(value, -1) << "two pieces write one element";
        value = 0;
        for (const int device : piece.sources) {
          value += source.values[static_cast<std::size_t>(device)][static_cast<std::size_t>(
              offset_in(from_shard, plus(piece.source_begin, index)))];
        }
      });
    }
    target.values.push_back(std::move(values));
  }
  return target;
}

std::vector<Placement> choices(int rank, bool partial_too) {
  std::vector<Placement> all{replicate()};
  for (int d = 0; d < rank; ++d)
    all.push_back(shard(d));
  if (partial_too) all.push_back(partial(ReduceOp::sum));
  return all;
}

std::vector<Placements> all_placements(const MeshShape& mesh, int rank, bool partial_too) {
  std::vector<Placements> lists{Placements{}};
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    std::vector<Placements> longer;
    for (const Placements& list : lists) {
      for (const Placement& placement : choices(rank, partial_too)) {
        longer.push_back(list);
        longer.back().push_back(placement);
      }
    }
    lists = std::move(longer);
  }
  return lists;
}

const std::vector<MeshShape>& meshes() {
  static const std::vector<MeshShape> all{{1, 1}, {1, 2}, {3}, {2, 2}, {2, 3}, {2, 1, 3}};
  return all;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{Shape{}, Shape{1}, Shape{0, 3}, Shape{5, 4}, Shape{13, 1}};
  return all;
}

TensorSpec spec_of(const Shape& shape, const MeshShape& mesh, const Placements& placements) {
  return {.shape = shape, .dtype = DType::i64, .placements = placements, .mesh = mesh};
}

TEST(Redistribution, PiecesCarryEveryElementWhereItBelongs) {
  for (const MeshShape& mesh : meshes()) {
    for (const Shape& shape : shapes()) {
      for (const Placements& from : all_placements(mesh, shape.rank(), true)) {
        const Shards source = lie(spec_of(shape, mesh, from));
        for (const Placements& to : all_placements(mesh, shape.rank(), false)) {
          const TensorSpec wanted = spec_of(shape, mesh, to);
          EXPECT_EQ(redistribute(source, wanted).values, lie(wanted).values)
              << source.spec.to_string() << " to " << wanted.to_string();
        }
      }
    }
  }
}

TEST(Redistribution, PlansArrive) {
  for (const MeshShape& mesh : meshes()) {
    const Shape shape{5, 4};
    for (const Placements& from : all_placements(mesh, 2, true)) {
      for (const Placements& to : all_placements(mesh, 2, false)) {
        const TensorSpec wanted = spec_of(shape, mesh, to);
        Shards now = lie(spec_of(shape, mesh, from));
        const ReshardPlan plan = plan_reshard(now.spec, wanted);
        for (const ReshardStep& step : plan.steps) {
          EXPECT_EQ(step.from.placements, now.spec.placements);
          now = redistribute(now, step.to);
        }
        EXPECT_EQ(now.values, lie(wanted).values) << plan.to_string();
      }
    }
  }
}

TEST(Redistribution, ADeviceTakesWhatItHasItself) {
  const TensorSpec from = spec_of({8}, {2, 2}, {replicate(), shard(0)});
  const TensorSpec to = spec_of({8}, {2, 2}, {shard(0), replicate()});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(bytes_received(from, from, i), 0);
    EXPECT_LE(bytes_received(from, to, i), 4 * 8);
  }
  EXPECT_EQ(bytes_received(from, to, 0), 0);
}

TEST(Redistribution, MeshesOfOtherShapesOnTheSameDevices) {
  const TensorSpec from = spec_of({6}, {2, 3}, {shard(0), shard(0)});
  const TensorSpec to = spec_of({6}, {6}, {shard(0)});
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(bytes_received(from, to, i), 0);
  const DeviceNumbers reversed{.from = {0, 1, 2, 3, 4, 5}, .to = {5, 4, 3, 2, 1, 0}};
  EXPECT_EQ(bytes_received(from, to, 0, reversed), 8);
}

std::string movement(const Placements& from, const Placements& to) {
  const ReshardPlan plan =
      plan_reshard(spec_of({64, 64}, {2, 2}, from), spec_of({64, 64}, {2, 2}, to));
  std::string names;
  for (const ReshardStep& step : plan.steps) {
    names += (names.empty() ? "" : " ") + std::string(to_string(step.movement));
  }
  return names;
}

TEST(Redistribution, StepsHaveTheNamesOfTheField) {
  const Placement sum = partial(ReduceOp::sum);
  EXPECT_EQ(movement({replicate(), replicate()}, {replicate(), replicate()}), "");
  EXPECT_EQ(movement({replicate(), replicate()}, {shard(0), shard(1)}), "slice");
  EXPECT_EQ(movement({shard(0), replicate()}, {replicate(), replicate()}), "all_gather");
  EXPECT_EQ(movement({shard(0), replicate()}, {shard(1), replicate()}), "all_to_all");
  EXPECT_EQ(movement({sum, replicate()}, {shard(1), replicate()}), "reduce_scatter");
  EXPECT_EQ(movement({sum, sum}, {replicate(), replicate()}), "all_reduce");
  // Reduced while it is still cut, and put together afterwards.
  EXPECT_EQ(movement({sum, shard(0)}, {replicate(), replicate()}), "all_reduce all_gather");
}

TEST(Redistribution, RefusesWhatOnlyProgramsMake) {
  const Placement sum = partial(ReduceOp::sum);
  const TensorSpec whole = spec_of({4}, {2}, {replicate()});
  EXPECT_THROW(plan_reshard(whole, spec_of({4}, {2}, {sum})), Error);
  EXPECT_THROW(plan_reshard(whole, spec_of({5}, {2}, {replicate()})), Error);
  EXPECT_THROW(plan_reshard(whole, spec_of({4}, {3}, {replicate()})), Error);
  EXPECT_TRUE(plan_reshard(spec_of({4}, {2}, {sum}), spec_of({4}, {2}, {sum})).steps.empty());
}

TEST(Redistribution, PrintsWhatAPlanDoes) {
  const TensorSpec from = spec_of({4, 2}, {1, 2}, {replicate(), partial(ReduceOp::sum)});
  EXPECT_EQ(plan_reshard(from, spec_of({4, 2}, {1, 2}, {})).to_string(),
            "all_reduce over axis 1: i64[4,2] (replicate, partial sum) -> (replicate, replicate), "
            "64 bytes a device");
}

}  // namespace
}  // namespace tilemesh
