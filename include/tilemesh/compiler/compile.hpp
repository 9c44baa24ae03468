#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/ops/target.hpp"
#include "tilemesh/program/binary.hpp"

namespace tilemesh {

/// That a value be cut along a dim over a mesh axis: "x=0@1".
struct ShardRule {
  /// Of an input, a parameter or any other value, or "re:" and a regular expression (ECMAScript)
  /// that must match all of a name.
  std::string name;
  int dim = 0;
  int axis = -1;  ///< -1: over all axes
};
/// Reads "NAME=DIM" or "NAME=DIM@AXIS", several DIM@AXIS apart by commas. Throws invalid_argument,
/// also where a dim is cut along a later axis first: earlier axes cut slower.
std::vector<ShardRule> parse_shard_rules(const std::string& text);

/// How to cut a program without naming values.
enum class AutoShard : std::uint8_t {
  data,    ///< the batch
  tensor,  ///< weights of matmuls, in columns and then in rows, and attention by heads
};
/// Reads "data", "tensor" or "data,tensor": one alone takes all mesh axes, two the first and the
/// others. Throws invalid_argument for another word.
std::vector<AutoShard> parse_auto_shard(const std::string& text);

struct CompileOptions {
  MeshShape mesh = {1, 1};
  /// Null: this machine, asked through default_target.
  const Target* target = nullptr;
  /// Space of inputs and outputs by name.
  std::map<std::string, Space> spaces = {};
  /// Values to cut ("--shard x=0@1"); what follows for others is worked out.
  std::vector<ShardRule> shards = {};
  /// Cuts found without names ("--auto data,tensor"), after those of `shards`.
  std::vector<AutoShard> automatic = {};
  /// Inputs that are state, and the output that takes over their storage ("--state state=stateN").
  std::map<std::string, std::string> states = {};
  /// Called with what is going on and how far it is, 0 to 1.
  std::function<void(std::string_view stage, double done)> progress = {};
};

/// What an ONNX model leaves open.
struct OnnxOptions {
  std::string name = {};                          ///< of the program; empty: the graph's file name
  std::map<std::string, std::int64_t> dims = {};  ///< symbolic dims by name
  std::map<std::string, Shape> shapes = {};       ///< whole shapes of inputs
  std::map<std::string, ConstantData> values = {};  ///< inputs fixed to a value, no inputs any
                                                    ///< more; see needed_values
  /// A folder that external data may lie in too, beside the model's own: what a link, an absolute
  /// path or ".." leads to has to be in one of the two. Empty: the model's own alone.
  std::filesystem::path data_root = {};
};

/// Reads a model into a graph: binds dims, folds what is known, checks every op. Lists all unknown
/// ops at once (unsupported), all unbound dims at once (invalid_argument, with the flags that bind
/// them).
Graph import_onnx(const std::filesystem::path& path, const OnnxOptions& options = {});
Graph import_onnx_bytes(std::string_view bytes, const OnnxOptions& options,
                        const std::filesystem::path& directory = {});

/// Inputs of a model whose values must be known when it is compiled, since shapes depend on them.
struct OnnxInputInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::string> dims;  ///< number, symbol or "?"
  bool value_needed = false;
};
std::vector<OnnxInputInfo> onnx_inputs(const std::filesystem::path& path);

/// The target of this machine for a mesh of `device_count` devices. Defined in builtin.
const Target& default_target(int device_count, int threads_per_device = 0);

/// Decides layouts, placements, fusion, memory plan; gives a binary of one program per graph.
Binary compile(std::vector<Graph> graphs, const CompileOptions& options = {});

}  // namespace tilemesh
