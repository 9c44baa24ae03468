// tilemesh check A.tmb:PROGRAM.OUTPUT B.tmb:PROGRAM.INPUT

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "stitch.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

struct Options {
  std::string from;
  std::string to;
  bool forbid = false;
  bool json = false;
};

StitchEnd load_end(const std::string& text, bool inputs_only) {
  const std::string file = file_of(text);
  const Binary binary = Binary::load(file);
  try {
    StitchEnd end = find_end(binary, text.substr(file.size() + 1), inputs_only);
    end.file = file;
    return end;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("\"{}\": {}", file, error.what()));
  }
}

ExitCode run(const Options& options) {
  const StitchEnd from = load_end(options.from, false);
  const Stitch stitch = plan_stitch(from, load_end(options.to, true));
  if (options.json) {
    print_json(to_json(stitch));
  } else {
    print(to_string(stitch));
  }
  if (!stitch.refusal.empty()) {
    print_error(fmt::format("they can't be stitched: {}", stitch.refusal));
    return ExitCode::failure;
  }
  if (options.forbid && !stitch.steps.empty()) {
    print_error(fmt::format("stitching them needs copies ({}), and --forbid allows none",
                            stitch.steps.size()));
    return ExitCode::failure;
  }
  return ExitCode::ok;
}

}  // namespace

void add_check(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "check", "Say what it costs to feed the output of one program to the input of another");
  command
      ->add_option("FROM", options->from,
                   "An output (or, for weights that are there already, an input); PROGRAM. may be "
                   "left out if the binary has one program")
      ->required()
      ->type_name("FILE.tmb:PROGRAM.NAME");
  command->add_option("TO", options->to, "An input")
      ->required()
      ->type_name("FILE.tmb:PROGRAM.NAME");
  command->add_flag("--forbid", options->forbid, "Fail if a copy is needed");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Exit codes: 0 it stitches, 1 it can't (or needs copies that --forbid forbids), "
      "2 usage.");
  command->callback([options, &outcome] { outcome.code = run(*options); });
}

}  // namespace tilemesh::cli
