#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/tilemesh.hpp"

namespace tilemesh {
inline void PrintTo(const MeshShape& shape, std::ostream* out) {
  *out << shape.to_string();
}
}  // namespace tilemesh

/// Small programs that many tests run, and what they check errors with.
namespace tilemesh::programs {

inline std::vector<float> iota(std::int64_t count, float first = 0) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = first + static_cast<float>(i);
  }
  return values;
}

inline Tensor host(const Shape& shape, float first = 0) {
  return Tensor::adopt(iota(shape.element_count(), first), {.shape = shape});
}

/// y = a + b
inline Graph add(const Shape& shape) {
  ProgramBuilder builder("add");
  const auto a = builder.input("a", {.shape = shape});
  const auto b = builder.input("b", {.shape = shape});
  builder.output("y", builder.add(a, b));
  return builder.build();
}

/// y = relu(x) * 2
inline Graph twice_relu(const Shape& shape, const std::string& name = "twice_relu") {
  ProgramBuilder builder(name);
  const auto x = builder.input("x", {.shape = shape});
  builder.output("y", builder.mul(builder.relu(x), builder.constant(2.0F)));
  return builder.build();
}

/// y = x w, w a parameter
inline Graph linear(std::int64_t rows, std::int64_t in, std::int64_t out) {
  ProgramBuilder builder("linear");
  const auto x = builder.input("x", {.shape = {rows, in}});
  const auto w = builder.input("w", {.shape = {in, out}}, InputKind::parameter);
  builder.output("y", builder.matmul(x, w));
  return builder.build();
}

/// state += x; y = sum so far + 1
inline Graph accumulate(const Shape& shape) {
  ProgramBuilder builder("accumulate");
  const auto x = builder.input("x", {.shape = shape});
  const auto state = builder.input("state", {.shape = shape}, InputKind::state);
  const auto next = builder.add(state, x);
  builder.output("y", builder.add(next, builder.constant(1.0F)));
  builder.output("next", next, {.alias = state});
  return builder.build();
}

inline Executable prepared(const Mesh& mesh, Graph graph, CompileOptions options = {}) {
  options.mesh = mesh.shape();
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return prepare(mesh, compile(std::move(graphs), options).program());
}

/// The message of the Error that `call` throws; fails for another code.
inline std::string refused(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace tilemesh::programs
