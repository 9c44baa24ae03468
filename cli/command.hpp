#pragma once

#include <stdexcept>

namespace CLI {
class App;
}  // namespace CLI

namespace tilemesh::cli {

/// What the process ends with.
enum class ExitCode : int { ok = 0, failure = 1, usage = 2, mismatch = 3 };

/// A command line that says something impossible; ends in ExitCode::usage.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Set by the subcommand that ran.
struct Outcome {
  ExitCode code = ExitCode::ok;
};

// Each declares a subcommand, its options, and what happens when it is chosen. `outcome` outlives
// the app.
void add_compile(CLI::App& app, Outcome& outcome);
void add_run(CLI::App& app, Outcome& outcome);
void add_verify(CLI::App& app, Outcome& outcome);
void add_inspect(CLI::App& app, Outcome& outcome);
void add_check(CLI::App& app, Outcome& outcome);
void add_plan(CLI::App& app, Outcome& outcome);
void add_query(CLI::App& app, Outcome& outcome);

}  // namespace tilemesh::cli
