#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilemesh/compiler/compile.hpp"

#include "arrays.hpp"
#include "terminal.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tilemesh::cli {

/// The two sides of "NAME=VALUE"; throws UsageError naming `option`.
std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view option);
/// "RxC" as a mesh; throws UsageError.
MeshShape parse_mesh(const std::string& text);
/// Each "NAME=FILE" read, see read_array.
NamedArrays read_named_arrays(const std::vector<std::string>& pairs, std::string_view option,
                              const std::string& data_root);

/// What a user says about the mesh: --mesh and --threads-per-device.
struct MeshChoice {
  std::string mesh;  ///< empty: not said
  int threads_per_device = 0;

  void add_to(CLI::App& app);
  std::optional<MeshShape> shape() const;
};

/// What a user says about how models are compiled.
struct ModelOptions {
  std::vector<std::string> dims, shapes, values, spaces, shards, states;
  std::string automatic;
  std::string target_file;
  std::string data_root;
  MeshChoice mesh;

  void add_to(CLI::App& app);
  /// Throws UsageError if something is said that a model alone takes, since `file` is compiled.
  void check_compiled(const std::string& file) const;
};

/// Imports and compiles models into one binary; each program is named after its file. `inputs` are
/// arrays at hand for the models' inputs: their shapes bind symbolic dims, and those whose values
/// must be known are taken as values. Throws UsageError for options that fit no model, Error for
/// the rest.
Binary compile_models(const std::vector<std::filesystem::path>& models, const ModelOptions& options,
                      const NamedArrays& inputs, Progress& progress);

}  // namespace tilemesh::cli
