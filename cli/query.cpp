// tilemesh query

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilemesh/compiler/compile.hpp"

#include "command.hpp"
#include "model_options.hpp"
#include "target_json.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

void run(const MeshChoice& mesh) {
  const MeshShape shape = mesh.shape().value_or(MeshShape{1, 1});
  const Target& target = default_target(shape.device_count(), mesh.threads_per_device);
  print_json(target_json(target.info()));
}

}  // namespace

void add_query(CLI::App& app, Outcome& /*outcome*/) {
  auto mesh = std::make_shared<MeshChoice>();
  CLI::App* command = app.add_subcommand(
      "query", "Print this machine as JSON, for `tilemesh compile --target FILE`");
  mesh->add_to(*command);
  command->add_flag_function(
      "--json", [](std::int64_t) {}, "Does nothing: the output is always JSON");
  command->callback([mesh] { run(*mesh); });
}

}  // namespace tilemesh::cli
