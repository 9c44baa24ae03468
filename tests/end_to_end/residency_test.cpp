#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

TEST(ToLayout, ATensorThatIsRightComesBackWithoutACopy) {
  const Mesh mesh = Mesh::open();
  const Executable linear = programs::prepared(mesh, programs::linear(4, 32, 48));
  const Tensor host = programs::host({32, 48});
  const Tensor once = to_layout(host, linear.input("w"));
  const Counters before = mesh.counters();
  const Tensor twice = to_layout(once, linear.input("w"));
  const Tensor by_index = to_layout(once, linear.input(1));
  EXPECT_EQ(once.state(), twice.state());
  EXPECT_EQ(once.state(), by_index.state());
  EXPECT_EQ((mesh.counters() - before).conversions, 0);
  EXPECT_EQ((mesh.counters() - before).host_to_device_bytes, 0);
  EXPECT_EQ(once.spec(), linear.input("w").spec);
}

TEST(ToLayout, TheSourceNeverChanges) {
  const Mesh mesh = Mesh::open();
  const Executable linear = programs::prepared(mesh, programs::linear(4, 32, 48));
  const Tensor host = programs::host({32, 48});
  const Tensor resident = to_layout(host, linear.input("w"));
  EXPECT_EQ(resident.values<float>(), host.values<float>());
  EXPECT_TRUE(host.is_allocated());
  EXPECT_TRUE(host.on_host());
}

TEST(ToLayout, WorksWithoutAnExecutable) {
  const Mesh mesh = Mesh::open();
  const Binary binary = compile({programs::linear(4, 8, 8)}, {});
  const Tensor w = to_layout(programs::host({8, 8}), mesh, binary.program(), 1);
  EXPECT_EQ(w.spec(), binary.program()->input_spec(1));
  EXPECT_THROW(to_layout(programs::host({8, 8}), mesh, binary.program(), 2), Error);
  EXPECT_THROW(to_layout(programs::host({8, 9}), mesh, binary.program(), 1), Error);
}

TEST(Submit, ForbidRefusesWhatNeedsACopyAndSaysWhat) {
  const Mesh mesh = Mesh::open();
  const Executable relu = programs::prepared(mesh, programs::twice_relu({6}));
  try {
    submit(relu, {programs::host({6})}, {.conversion = Conversion::forbid});
    FAIL() << "an upload passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::conversion_forbidden);
    EXPECT_NE(std::string(error.what()).find("upload"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("\"x\""), std::string::npos) << error.what();
  }
  const Tensor x = to_layout(programs::host({6}), relu.input("x"));
  EXPECT_NO_THROW(submit(relu, {x}, {.conversion = Conversion::forbid}));
}

TEST(Submit, ConversionsAreCounted) {
  const Mesh mesh = Mesh::open();
  const Executable relu = programs::prepared(mesh, programs::twice_relu({6, 5}));
  const Executable linear = programs::prepared(mesh, programs::linear(6, 5, 4));
  TensorSpec other = relu.input("x").spec;
  other.layout = Layout({1, 0}, {});
  const Tensor x = to_spec(programs::host({6, 5}), mesh, other);
  x.wait();
  const Counters before = mesh.counters();
  const Tensor y = submit(relu, {x})[0];
  EXPECT_EQ(y.values<float>()[29], 58.0F);
  EXPECT_EQ((mesh.counters() - before).conversions, 1);
  EXPECT_EQ((mesh.counters() - before).conversion_bytes, 120);
  EXPECT_THROW(submit(relu, {x}, {.conversion = Conversion::forbid}), Error);
}

TEST(Submit, OutputsLiveWhereTheProgramSays) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  for (const Space space : {Space::host, Space::dram, Space::l1}) {
    const Executable relu = programs::prepared(mesh, programs::twice_relu({3, 5}),
                                               {.spaces = {{"x", space}, {"y", space}}});
    EXPECT_EQ(relu.input("x").spec.space, space);
    const Tensor y = submit(relu, {programs::host({3, 5})})[0];
    EXPECT_EQ(y.spec().space, space);
    EXPECT_EQ(y.values<float>()[14], 28.0F);
    EXPECT_EQ(run(relu, {programs::host({3, 5})})[0].values<float>()[14], 28.0F);
  }
}

TEST(Submit, ConstantsOfEqualContentAreResidentOnce) {
  const Mesh mesh = Mesh::open();
  const auto with_constant = [](const std::string& name) {
    ProgramBuilder builder(name);
    const auto x = builder.input("x", {.shape = {2, 64}});
    builder.output("y", builder.matmul(x, builder.constant(programs::iota(64 * 512), {64, 512})));
    return builder.build();
  };
  const Executable first = programs::prepared(mesh, with_constant("first"));
  const auto before = memory_report(mesh).spaces[0].used_bytes;
  const Executable second = programs::prepared(mesh, with_constant("second"));
  EXPECT_LT(memory_report(mesh).spaces[0].used_bytes - before, 64 * 512 * 4);
  const Tensor x = programs::host({2, 64});
  EXPECT_EQ(run(first, {x})[0].values<float>(), run(second, {x})[0].values<float>());
}

TEST(Memory, EverythingReturnsWhenHandlesGo) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const auto used = [&] {
    return memory_report(mesh).spaces[0].used_bytes;
  };
  const auto before = used();
  {
    const Executable linear = programs::prepared(mesh, programs::linear(4, 32, 48));
    Tensor y = submit(linear, {programs::host({4, 32}), programs::host({32, 48})})[0];
    y = submit(linear, {programs::host({4, 32}), programs::host({32, 48})})[0];
    EXPECT_GT(used(), before);
  }
  mesh.queue(0).finish();
  EXPECT_EQ(used(), before);
}

}  // namespace
}  // namespace tilemesh
