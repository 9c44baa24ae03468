#include <cstdio>
#include <vector>

#include <tilemesh/tilemesh.hpp>

int main() {
  namespace tm = tilemesh;  // inside, since C has a global struct of that name
  tm::ProgramBuilder builder("double");
  const auto x = builder.input("x", {.shape = {2, 3}, .dtype = tm::DType::f32});
  builder.output("y", builder.add(x, x));
  std::vector<tm::Graph> graphs;
  graphs.push_back(builder.build());
  const tm::Binary binary = tm::compile(std::move(graphs), {.mesh = {1, 2}});

  const tm::Mesh mesh = tm::Mesh::open({.shape = {1, 2}, .threads_per_device = 1});
  const tm::Executable twice = tm::prepare(mesh, binary.program("double"));
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const tm::Tensor y = tm::run(twice, {tm::Tensor::copy(values, {.shape = {2, 3}})})[0];
  std::vector<float> doubled;
  for (const float value : values)
    doubled.push_back(2 * value);
  if (y.values<float>() != doubled) {
    std::puts("wrong values");
    return 1;
  }
  std::puts("right values");
  return 0;
}
