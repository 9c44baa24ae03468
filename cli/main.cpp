// The tool `tilemesh`.

#include <cstdio>
#include <exception>
#include <new>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "command.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

int number(ExitCode code) {
  return static_cast<int>(code);
}

/// Parses and runs; throws what goes wrong.
int run_tool(int argc, char** argv) {
  CLI::App app("Compiles ONNX models and runs them on a mesh of devices.", "tilemesh");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tilemesh " TILEMESH_VERSION);
  app.set_help_all_flag("--help-all", "Print the help of every subcommand");
  app.footer("Exit codes: 0 ok, 1 failure, 2 usage, 3 results differ from the expected ones.");
  Outcome outcome;
  add_compile(app, outcome);
  add_run(app, outcome);
  add_verify(app, outcome);
  add_inspect(app, outcome);
  add_check(app, outcome);
  add_plan(app, outcome);
  add_query(app, outcome);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    throw UsageError(fmt::format("{} (tilemesh{} --help tells more)", error.what(),
                                 chosen.empty() ? "" : " " + chosen.front()->get_name()));
  }
  return number(outcome.code);
}

/// A full disk behind stdout must not pass for success.
int with_flushed_output(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    print_error("can't write to the standard output");
    return code == 0 ? number(ExitCode::failure) : code;
  }
  return code;
}

}  // namespace
}  // namespace tilemesh::cli

int main(int argc, char** argv) {
  using tilemesh::cli::ExitCode;
  try {
    return tilemesh::cli::with_flushed_output(tilemesh::cli::run_tool(argc, argv));
  } catch (const tilemesh::cli::UsageError& error) {
    tilemesh::cli::print_error(error.what());
    return static_cast<int>(ExitCode::usage);
  } catch (const std::bad_alloc&) {
    tilemesh::cli::print_error("the memory of this machine is exhausted");
  } catch (const std::exception& error) {
    tilemesh::cli::print_error(error.what());
  }
  return static_cast<int>(ExitCode::failure);
}
