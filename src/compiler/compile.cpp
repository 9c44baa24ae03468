#include "tilemesh/compiler/compile.hpp"

#include "compiler/lower.hpp"

namespace tilemesh {

Binary compile(std::vector<Graph> graphs, const CompileOptions& options) {
  const Target& target =
      options.target != nullptr ? *options.target : default_target(options.mesh.device_count());
  return compile_for(std::move(graphs), options, target);
}

}  // namespace tilemesh
