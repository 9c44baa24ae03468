// fuzz tmb|onnx: changes files at random, and tries what becomes of them under guard pages.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "mutants.hpp"
#include "supervisor.hpp"

#if defined(__SANITIZE_ADDRESS__)
// The arenas are mapped, not allocated; an allocation beyond this is refused as the system would.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:"
         "handle_segv=1:abort_on_error=1:quarantine_size_mb=16";
}
#endif

namespace tilemesh::fuzz {
namespace {

struct Options {
  std::string kind;
  std::uint64_t seed = 1;
  SuperviseOptions supervise{.count = 100000, .jobs = 2};
  std::filesystem::path seeds = TILEMESH_FUZZ_SEEDS;
  std::filesystem::path file;  // to try instead of mutants
  std::filesystem::path save;  // where faulty mutants are written
  bool direct = false;         // in this process, for a debugger
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::io, fmt::format("can't read \"{}\"", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw Error(ErrorCode::io, fmt::format("can't write \"{}\"", path.string()));
}

int try_here(const Options& options, Mutants& mutants) {
  const Mutant mutant = options.file.empty() ? mutants.make(options.supervise.from)
                                             : Mutant{read(options.file), options.file.string()};
  fmt::print("{}\n", mutant.text);
  std::string message;
  try {
    const Outcome outcome = mutants.run(mutant, options.supervise.from, message);
    fmt::print("{}: {}\n", to_string(outcome), message);
    return is_fault(outcome) ? 1 : 0;
  } catch (const Error& error) {
    fmt::print("refused: {}\n", error.what());
    return error.code() == ErrorCode::internal ? 1 : 0;
  }
}

void save_faults(const Options& options, Mutants& mutants, const Tally& tally) {
  std::filesystem::create_directories(options.save);
  for (const Fault& fault : tally.faults) {
    Mutant mutant;
    try {
      mutant = mutants.make(fault.number);
    } catch (const std::exception& error) {  // the table itself failed on the draw
      mutant.text = fmt::format("can't be made: {}", error.what());
    }
    const std::string name = fmt::format("{}-{}{}", options.seed, fault.number, mutants.suffix());
    write(options.save / name, mutant.bytes);
    fmt::print("\n{} ({})\n{}\nagain: fuzz {} --seed {} --from {} --direct\n",
               (options.save / name).string(), mutant.text, fault.text, options.kind, options.seed,
               fault.number);
  }
}

void report(const Options& options, const Tally& tally, double seconds) {
  std::string counts;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < tally.outcomes.size(); ++i) {
    total += tally.outcomes[i];
    if (tally.outcomes[i] > 0)
      counts += fmt::format(", {} {}", tally.outcomes[i], to_string(static_cast<Outcome>(i)));
  }
  fmt::print("{} mutants of .{} in {:.0f} s{}\n", total, options.kind, seconds, counts);
  fmt::print("slowest: {:.2f} s, number {}; most memory of a process: {} MiB\n",
             tally.slowest_seconds, tally.slowest, tally.most_bytes >> 20);
  fmt::print("{} faults\n", tally.faults.size());
}

int run(const Options& options) {
  const std::unique_ptr<Mutants> mutants = options.kind == "tmb"
                                               ? program_mutants(options.seed)
                                               : onnx_mutants(options.seed, options.seeds);
  if (options.direct || !options.file.empty()) return try_here(options, *mutants);
  const auto begin = std::chrono::steady_clock::now();
  const Tally tally = supervise(options.supervise, [&](std::uint64_t number, std::string& text) {
    return mutants->run(mutants->make(number), number, text);
  });
  if (!options.save.empty() && !tally.faults.empty()) save_faults(options, *mutants, tally);
  report(options, tally,
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return tally.faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tilemesh::fuzz

int main(int argc, char** argv) {
  tilemesh::fuzz::Options options;
  CLI::App app("Changes files at random, and tries them under guard pages");
  app.add_option("KIND", options.kind)->required()->check(CLI::IsMember({"tmb", "onnx"}));
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--from", options.supervise.from, "The first mutant's number")
      ->capture_default_str();
  app.add_option("--count", options.supervise.count)->capture_default_str();
  app.add_option("--jobs", options.supervise.jobs, "Processes at a time")->capture_default_str();
  app.add_option("--timeout", options.supervise.seconds_a_mutant, "Seconds for a mutant")
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "The .onnx files that are changed");
  app.add_option("--save", options.save, "Write faulty mutants into this folder");
  app.add_option("--file", options.file, "Try this file alone");
  app.add_flag("--direct", options.direct, "Try the mutant --from in this process");
  CLI11_PARSE(app, argc, argv);
  try {
    return tilemesh::fuzz::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz: {}\n", error.what());
    return 2;
  }
}
