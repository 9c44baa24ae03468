#include "tilemesh/collectives/collectives.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/reshard.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "tensor/tensor_state.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

struct CollectiveCase {
  std::string backend;
  int count = 1;
};
void PrintTo(const CollectiveCase& mesh, std::ostream* out) {
  *out << mesh.backend << "_" << mesh.count;
}

std::vector<CollectiveCase> collective_cases() {
  std::vector<CollectiveCase> cases;
  for (const char* backend : {"cpu", "null"}) {
    for (const int count : {1, 2, 3, 4, 5, 7, 8, 64}) {
      cases.push_back({backend, count});
    }
  }
  return cases;
}

Tensor counting(const Shape& shape, float first = 0) {
  Values values(static_cast<std::size_t>(shape.element_count()));
  std::iota(values.begin(), values.end(), first);
  return Tensor::adopt(std::move(values), {.shape = shape});
}

std::string message_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "went through";
}

/// A line of devices.
class CollectivesTest : public testing::TestWithParam<CollectiveCase> {
 protected:
  Mesh mesh_ = Mesh::open({.shape = {GetParam().count},
                           .backend = GetParam().backend,
                           .dram_bytes = 1 << 20,
                           .l1_bytes = 64 << 10});
  int count_ = GetParam().count;

  /// Device i has value + i in every element.
  Tensor parts(const Shape& shape, ReduceOp op, float value = 1) {
    std::vector<Tensor> shards;
    for (int i = 0; i < count_; ++i) {
      Values values(static_cast<std::size_t>(shape.element_count()), value + static_cast<float>(i));
      shards.push_back(Tensor::adopt(std::move(values), {.shape = shape}));
    }
    return from_shards(shards, mesh_, {partial(op)}, "parts");
  }
  float sum() const { return static_cast<float>(count_ * (count_ + 1) / 2); }
};
INSTANTIATE_TEST_SUITE_P(Meshes, CollectivesTest, testing::ValuesIn(collective_cases()),
                         [](const auto& test) {
                           return test.param.backend + "_" + std::to_string(test.param.count);
                         });

TEST_P(CollectivesTest, AllReduceByEachReduction) {
  const float n = static_cast<float>(count_);
  const std::vector<std::pair<ReduceOp, float>> expected = {
      {ReduceOp::sum, sum()}, {ReduceOp::max, n}, {ReduceOp::min, 1}, {ReduceOp::mean, sum() / n}};
  for (const auto& [op, value] : expected) {
    const Tensor result = all_reduce(parts({3, 5}, op), {.axis = 0, .op = op});
    EXPECT_EQ(result.spec().placement(0), replicate());
    for (int i = 0; i < count_; ++i) {
      EXPECT_EQ(result.shard({i}).values<float>(), Values(15, value))
          << to_string(mesh_.shape().coord_of(i));
    }
  }
  EXPECT_EQ(all_reduce(parts({2}, ReduceOp::sum), {.op = ReduceOp::mean}).values<float>(),
            Values(2, sum() / n));
}

TEST_P(CollectivesTest, ReduceScatterThenAllGatherIsAllReduce) {
  for (const std::int64_t rows : {0, 1, 13, 129}) {
    const Tensor part = parts({rows, 3}, ReduceOp::sum);
    const Tensor cut = reduce_scatter(part, {.dim = 0});
    EXPECT_EQ(cut.spec().placement(0), shard(0));
    const Tensor whole = all_gather(cut, {.dim = 0});
    EXPECT_EQ(whole.spec().placement(0), replicate());
    EXPECT_EQ(whole.values<float>(), Values(static_cast<std::size_t>(rows * 3), sum()));
    EXPECT_EQ(all_reduce(part).values<float>(), whole.values<float>());
  }
}

TEST_P(CollectivesTest, AllToAllCutsAnotherDim) {  // tt-metal#22977
  for (const Shape& shape : {Shape{129, 13}, Shape{13, 8}, Shape{1, 2}, Shape{0, 3}, Shape{3, 0}}) {
    const Tensor host = counting(shape);
    const Tensor rows = distribute(host, mesh_, {shard(0)});
    const Tensor columns = all_to_all(rows, {.dim = 1, .axis = 0});
    EXPECT_EQ(columns.spec().placement(0), shard(1));
    EXPECT_EQ(columns.values<float>(), host.values<float>());
    EXPECT_EQ(all_to_all(columns, {.dim = 0}).values<float>(), host.values<float>());
  }
}

TEST_P(CollectivesTest, BroadcastFromEachAndReduceToEach) {
  for (const std::int64_t size : {0, 5}) {
    const Tensor part = parts({size}, ReduceOp::sum);
    for (int i = 0; i < count_; ++i) {
      const Mesh one = mesh_.submesh({{i}, {i}});
      const Tensor sum_there = reduce(part, {.axis = 0, .root = {i}});
      EXPECT_EQ(sum_there.mesh(), one);
      EXPECT_EQ(sum_there.values<float>(), Values(static_cast<std::size_t>(size), sum()));
      const Tensor everywhere = broadcast(sum_there, mesh_);
      EXPECT_EQ(everywhere.mesh(), mesh_);
      EXPECT_TRUE(everywhere.spec().is_replicated());
      EXPECT_EQ(everywhere.shard({count_ - 1}).values<float>(), sum_there.values<float>());
    }
  }
}

TEST_P(CollectivesTest, PermuteInALoopComesBack) {  // tt-metal#23040
  Tensor x = distribute(counting({count_, 3}), mesh_, {shard(0)});
  std::vector<AxisRoute> ring;
  for (int i = 0; i < count_; ++i) {
    ring.push_back({i, (i + 1) % count_});
  }
  for (int round = 1; round <= 2 * count_; ++round) {
    x = permute(x, 0, ring);
    EXPECT_EQ(x.shard({round % count_}).values<float>(), (Values{0, 1, 2})) << round;
  }
  EXPECT_EQ(x.values<float>(), counting({count_, 3}).values<float>());
}

TEST_P(CollectivesTest, PointToPointLeavesZerosWhereNothingComes) {
  const Tensor x = distribute(counting({count_, 2}, 1), mesh_, {shard(0)});
  const std::vector<Route> route = {{{0}, {count_ - 1}}};
  Values expected(static_cast<std::size_t>(2 * count_), 0);
  expected[expected.size() - 2] = 1;
  expected[expected.size() - 1] = 2;
  EXPECT_EQ(permute(x, route).values<float>(), expected);
  EXPECT_EQ(permute(x, std::span<const Route>{}).values<float>(),
            Values(static_cast<std::size_t>(2 * count_), 0));
  EXPECT_EQ(permute(distribute(counting({0, 2}), mesh_, {shard(0)}), route).shape(), (Shape{0, 2}));
}

TEST_P(CollectivesTest, BoolsAreAnyAndAll) {
  std::vector<Tensor> shards;
  for (int i = 0; i < count_; ++i) {
    const bool values[3] = {i == count_ - 1, i != 0, true};
    shards.push_back(Tensor::copy(values, {.shape = {3}}));
  }
  const auto reduced = [&](ReduceOp op) {
    return all_reduce(from_shards(shards, mesh_, {partial(op)})).values<bool>();
  };
  const std::vector<bool> any = {true, count_ > 1, true};
  const std::vector<bool> all = {count_ == 1, false, true};
  EXPECT_EQ(reduced(ReduceOp::sum), any);
  EXPECT_EQ(reduced(ReduceOp::max), any);
  EXPECT_EQ(reduced(ReduceOp::prod), all);
  EXPECT_EQ(reduced(ReduceOp::min), all);
}

TEST_P(CollectivesTest, ManyInFlightEndInOrder) {
  Tensor x = parts({7}, ReduceOp::sum);
  std::vector<Tensor> results;
  for (int i = 0; i < 20; ++i) {
    results.push_back(all_reduce(x));
    results.push_back(reduce_scatter(x, {.dim = 0}));
  }
  for (const Tensor& result : results) {
    EXPECT_EQ(result.values<float>(), Values(7, sum()));
  }
}

TEST_P(CollectivesTest, OfWhatHasFailedFailWithTheFirstCause) {  // tt-metal#33125
  const Tensor part = parts({100}, ReduceOp::sum);
  const Event failed = mesh_.queue(0).enqueue_host([](int index) {
    if (index == 0) throw Error(ErrorCode::kernel_failed, "device 0 gives up");
  });
  detail::set_event(*part.state(), failed);
  const Tensor sum_of_it = all_reduce(part);
  const Tensor further = reshard(sum_of_it, {shard(0)});
  for (const Tensor& tensor : {sum_of_it, further}) {
    try {
      tensor.wait();
      FAIL() << "went through";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("device 0 gives up"));
    }
  }
  EXPECT_EQ(all_reduce(parts({3}, ReduceOp::sum)).values<float>(), Values(3, sum()));
}

TEST_P(CollectivesTest, SayWhatIsWrongAndWhatToDo) {
  const Tensor cut = distribute(counting({8, 2}), mesh_, {shard(0)}, "cut");
  const Tensor part = parts({4}, ReduceOp::sum);
  EXPECT_THAT(message_of([&] { all_reduce(cut, {.axis = 0}); }),
              testing::AllOf(HasSubstr("\"cut\""), HasSubstr("isn't partial, but shard 0"),
                             HasSubstr("all_gather")));
  EXPECT_THAT(message_of([&] { all_reduce(cut); }), HasSubstr("along no axis it is partial"));
  EXPECT_THAT(message_of([&] { all_reduce(part, {.axis = 1}); }), HasSubstr("no axis 1"));
  EXPECT_THAT(message_of([&] { all_reduce(part, {.axis = 0, .axes = {0}}); }), HasSubstr("twice"));
  EXPECT_THAT(message_of([&] { all_reduce(part, {.op = ReduceOp::max}); }),
              HasSubstr("partial sum, not partial max"));
  EXPECT_THAT(message_of([&] { all_reduce(counting({2})); }), HasSubstr("distribute"));
  EXPECT_THAT(message_of([&] { all_gather(part); }), HasSubstr("along no axis it is cut"));
  EXPECT_THAT(message_of([&] { all_gather(cut, {.axis = 0, .dim = 1}); }),
              HasSubstr("axis 0 cuts dim 0, not 1"));
  EXPECT_THAT(message_of([&] { all_gather(cut, {.dim = 1}); }), HasSubstr("no axis cuts dim 1"));
  EXPECT_THAT(message_of([&] { reduce_scatter(part, {.dim = 1}); }), HasSubstr("no dim 1"));
  EXPECT_THAT(message_of([&] { all_to_all(cut, {.dim = 2}); }), HasSubstr("no dim 2"));
  EXPECT_THAT(message_of([&] { reduce(part, {.root = {count_}}); }), HasSubstr("no root"));
  EXPECT_THAT(message_of([&] { reduce(part, {.root = {0, 0}}); }), HasSubstr("2 indices"));
  const std::vector<Route> outside = {{{0}, {count_}}};
  EXPECT_THAT(message_of([&] { permute(cut, outside); }), HasSubstr("outside"));
  const std::vector<Route> twice = {{{0}, {0}}, {{count_ - 1}, {0}}};
  EXPECT_THAT(message_of([&] { permute(cut, twice); }), HasSubstr("two routes"));
}

/// Two axes.
class Grid : public testing::Test {
 protected:
  Mesh mesh_ = Mesh::open({.shape = {2, 3}});

  Tensor parts(const Placements& placements, const Shape& shape) {
    std::vector<Tensor> shards;
    for (int i = 0; i < 6; ++i) {
      shards.push_back(counting(shape, static_cast<float>(i * 100)));
    }
    return from_shards(shards, mesh_, placements);
  }
};

TEST_F(Grid, PlacementsOfTheResultAreWhatTheDataSays) {  // tt-metal#38371
  const Placement sum = partial(ReduceOp::sum);
  const Tensor both = parts({sum, sum}, {4});
  const Tensor one = all_reduce(both, {.axis = 1});
  EXPECT_EQ(one.spec().placements, (Placements{sum, replicate()}));
  EXPECT_EQ(one.shard({1, 0}).values<float>(), (Values{1200, 1203, 1206, 1209}));
  EXPECT_EQ(all_reduce(one).spec().placements, (Placements{replicate(), replicate()}));
  EXPECT_EQ(all_reduce(both).values<float>(), (Values{1500, 1506, 1512, 1518}));
  const Tensor cut = reduce_scatter(both, {.dim = 0, .axis = 0});
  EXPECT_EQ(cut.spec().placements, (Placements{shard(0), sum}));
  EXPECT_EQ(cut.values<float>(), (Values{1500, 1506, 1512, 1518}));
}

TEST_F(Grid, GatheringTheSlowerOfTwoAxesKeepsTheOther) {  // tt-metal#35362
  const Tensor host = counting({13, 2});
  const Tensor x = distribute(host, mesh_, {shard(0), shard(0)});
  const Tensor gathered = all_gather(x, {.axis = 0});
  EXPECT_EQ(gathered.spec().placements, (Placements{replicate(), shard(0)}));
  EXPECT_EQ(gathered.shard({1, 0}).shape(), (Shape{5, 2}));
  EXPECT_EQ(gathered.values<float>(), host.values<float>());
  EXPECT_EQ(all_gather(x).values<float>(), host.values<float>());
}

TEST_F(Grid, OnAReshapedSubmesh) {  // tt-metal#26353
  const Mesh line = mesh_.submesh({{0, 1}, {1, 2}}).reshape({4});
  std::vector<Tensor> shards;
  for (int i = 0; i < 4; ++i) {
    shards.push_back(counting({6}, static_cast<float>(i)));
  }
  const Tensor x = from_shards(shards, line, {partial(ReduceOp::sum)});
  const Tensor y = reduce_scatter(x, {.dim = 0});
  EXPECT_EQ(y.values<float>(), (Values{6, 10, 14, 18, 22, 26}));
  EXPECT_EQ(y.shard({2}).values<float>(), (Values{22, 26}));
  EXPECT_EQ(y.shard({3}).shape(), (Shape{0}));
}

TEST_F(Grid, BroadcastAndReduceAlongOneAxis) {
  const Tensor host = counting({6});
  const Mesh row = mesh_.submesh(mesh_.row(1));
  const Tensor x = distribute(host, row, {replicate(), shard(0)});
  const Tensor everywhere = broadcast(x, mesh_);
  EXPECT_EQ(everywhere.spec().placements, (Placements{replicate(), shard(0)}));
  EXPECT_EQ(everywhere.shard({0, 2}).values<float>(), (Values{4, 5}));
  const Tensor sum = reduce(parts({partial(ReduceOp::sum), shard(0)}, {2}), {.root = {1}});
  EXPECT_EQ(sum.mesh(), row);
  EXPECT_EQ(sum.values<float>(), (Values{300, 302, 500, 502, 700, 702}));
  EXPECT_THAT(message_of([&] { broadcast(x, mesh_.reshape({6})); }), HasSubstr("broadcast"));
}

TEST_F(Grid, PermuteKeepsReplicasAlike) {
  const Tensor x = distribute(counting({3, 2}), mesh_, {replicate(), shard(0)});
  const std::vector<AxisRoute> swap = {{0, 1}, {1, 0}, {2, 2}};
  EXPECT_EQ(permute(x, 1, swap).values<float>(), (Values{2, 3, 0, 1, 4, 5}));
  const std::vector<Route> one_row = {{{0, 0}, {0, 1}}};
  EXPECT_THAT(message_of([&] { permute(x, one_row); }), HasSubstr("all replicas alike"));
  const Tensor uneven = distribute(counting({4, 2}), mesh_, {replicate(), shard(0)});
  EXPECT_THAT(message_of([&] {
                permute(uneven, 1, std::vector<AxisRoute>{{0, 2}});
              }),
              HasSubstr("another size"));
}

TEST_F(Grid, AreCounted) {
  const Tensor x = parts({partial(ReduceOp::sum), replicate()}, {64});
  const Counters before = mesh_.counters();
  all_reduce(x).wait();
  const Counters spent = mesh_.counters() - before;
  EXPECT_EQ(spent.host_to_device_bytes + spent.device_to_host_bytes, 0);
  EXPECT_EQ(spent.device_to_device_transfers, 1);
  EXPECT_EQ(spent.device_to_device_bytes, 6 * 256);
}

}  // namespace
}  // namespace tilemesh
