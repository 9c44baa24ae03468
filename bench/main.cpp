// Times the public interface from inside one process and prints {"median_us": x, ...}.
// tools/bench.py sets it against rivals.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tilemesh/tilemesh.hpp>

#include "collectives_bench.hpp"
#include "mesh_bench.hpp"

namespace bench {
namespace {

namespace tm = tilemesh;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 20;

/// Median in microseconds of single calls, after `warm_ups` that don't count.
double median_us(int repeats, int warm_ups, const std::function<void()>& call) {
  for (int i = 0; i < warm_ups; ++i) {
    call();
  }
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(repeats));
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void print(double us) {
  std::printf("{\"median_us\": %.4f}\n", us);
}

tm::Mesh one_thread(const tm::MeshShape& shape = {1, 1}) {
  return tm::Mesh::open({.shape = shape, .threads_per_device = 1});
}

/// On a mesh of the shape that the program is for.
tm::Executable load(const std::string& path) {
  const tm::BoundProgram program = tm::Binary::load(path).program();
  return tm::prepare(one_thread(program->mesh), program);
}

tm::Executable add_1x16(const tm::Mesh& mesh) {
  tm::ProgramBuilder builder("add");
  const auto a = builder.input("a", {.shape = {1, 16}});
  const auto b = builder.input("b", {.shape = {1, 16}});
  builder.output("y", builder.add(a, b));
  return tm::prepare(mesh, tm::compile({builder.build()}, {}).program());
}

std::vector<tm::Argument> resident_inputs(const tm::Executable& executable) {
  std::vector<tm::Argument> arguments;
  for (int i = 0; i < static_cast<int>(executable.input_count()); ++i) {
    arguments.emplace_back(tm::zeros(executable.input(i)));
    arguments.back().tensor.wait();
  }
  return arguments;
}

void time_run(const tm::Executable& executable, int repeats) {
  const std::vector<tm::Argument> arguments = resident_inputs(executable);
  print(median_us(repeats, kWarmUps, [&] { tm::run(executable, arguments); }));
}

/// Into outputs that are there already: the form that allocates nothing.
void time_run_into(const tm::Executable& executable, int repeats) {
  const std::vector<tm::Argument> arguments = resident_inputs(executable);
  std::vector<tm::Tensor> outputs;
  for (int i = 0; i < static_cast<int>(executable.output_count()); ++i) {
    outputs.push_back(tm::empty(executable.output(i)));
  }
  print(median_us(repeats, kWarmUps, [&] { tm::run_into(executable, arguments, outputs); }));
}

/// From the file to an executable whose constants are resident, on a mesh that is open. The first
/// load of a process makes its kernels' code, later ones find it: ask for one repeat to time that.
void time_load(const std::string& path, int repeats) {
  const tm::Mesh mesh = one_thread();
  print(median_us(repeats, 0, [&] { tm::prepare(mesh, tm::Binary::load(path).program()); }));
}

int repeats_of(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--repeat") == 0) {
      return std::max(1, std::atoi(argv[i + 1]));
    }
  }
  return 100;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int repeats = repeats_of(argc, argv);
  if (what == "add") {
    time_run(add_1x16(one_thread()), repeats);
  } else if (what == "add-into") {
    time_run_into(add_1x16(one_thread()), repeats);
  } else if (what == "run" && argc > 2) {
    time_run(load(argv[2]), repeats);
  } else if (what == "load" && argc > 2) {
    time_load(argv[2], repeats);
  } else if (what == "mesh" && run_mesh_case(argc > 2 ? argv[2] : "")) {
    return 0;
  } else if (what == "collectives" && run_collectives_case(argc > 2 ? argv[2] : "")) {
    return 0;
  } else {
    std::fputs(
        "usage: tilemesh-bench add|add-into|run FILE.tmb|load FILE.tmb [--repeat N]\n"
        "       tilemesh-bench mesh|collectives [CASE]\n",
        stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilemesh-bench: error: %s\n", error.what());
    return 1;
  }
}
