// The tool `tilemesh`.

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tilemesh/base/close_names.hpp"

#include "command.hpp"
#include "process.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

int number(ExitCode code) {
  return static_cast<int>(code);
}

/// The first word that nothing takes, and what it may have meant: a flag of the subcommand that was
/// chosen, or a subcommand. Without such a word what the parser says.
std::string message_of(const CLI::ParseError& error, const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  std::vector<std::string> flags;
  for (const CLI::Option* option : (chosen.empty() ? &app : chosen.front())->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
  }
  for (const std::string& word : app.remaining(true)) {
    if (word.size() > 1 && word[0] == '-') {
      const std::string flag = word.substr(0, word.find('='));
      return fmt::format("there is no flag \"{}\"{}", flag, did_you_mean(flag, flags));
    }
    if (chosen.empty()) {
      return fmt::format("there is no subcommand \"{}\"{}", word, did_you_mean(word, commands));
    }
  }
  return error.what();
}

/// Parses and runs; throws what goes wrong.
int run_tool(int argc, char** argv) {
  CLI::App app("Compiles ONNX models and runs them on a mesh of devices.", "tilemesh");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tilemesh " TILEMESH_VERSION);
  app.set_help_all_flag("--help-all", "Print the help of every subcommand");
  app.footer(
      "Exit codes: 0 ok; 1 failure; 2 usage: a flag or a value that can't be, or a name that the "
      "given files don't have; 3 results differ from the expected ones.");
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
    std::ostringstream text;
    const int code = app.exit(wanted, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    throw UsageError(fmt::format("{} (tilemesh{} --help tells more)", message_of(error, app),
                                 chosen.empty() ? "" : " " + chosen.front()->get_name()));
  }
  return number(outcome.code);
}

/// The exit code, what went wrong said.
int run_and_report(int argc, char** argv) noexcept {
  try {
    return run_tool(argc, argv);
  } catch (const UsageError& error) {
    print_error(error.what());
    return number(ExitCode::usage);
  } catch (const std::bad_alloc&) {
    print_error("the memory of this machine is exhausted");
  } catch (const std::exception& error) {
    print_error(error.what());
  } catch (...) {
    print_error("something that is no error was thrown; this is a bug in tilemesh");
  }
  return number(ExitCode::failure);
}

/// A full disk behind stdout must not pass for success. A reader that went away knows.
int with_flushed_output(int code) noexcept {
  const int cause = flush_output();
  if (cause == 0) {
    return code;
  }
  if (cause != EPIPE) {
    print_error(std::string("can't write to the standard output: ") + std::strerror(cause));
  }
  return code == number(ExitCode::ok) ? number(ExitCode::failure) : code;
}

}  // namespace
}  // namespace tilemesh::cli

int main(int argc, char** argv) {
  tilemesh::cli::prepare_process();
  return tilemesh::cli::with_flushed_output(tilemesh::cli::run_and_report(argc, argv));
}
