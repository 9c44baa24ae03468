#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tilemesh/compiler/compile.hpp"

#include "compiler/onnx/node.hpp"
#include "compiler/onnx/problems.hpp"
#include "compiler/onnx/value_list.hpp"

namespace tilemesh::onnx_importer {

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = google::protobuf::RepeatedPtrField<std::string>;
/// Opset version by domain; the default domain is "".
using Versions = std::map<std::string, std::int64_t, std::less<>>;
using AttributeProtos = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

/// What an output of a node that can't be imported is bound to: nodes that read it are passed
/// over, so that one import finds all problems.
inline constexpr Value kPoison{0xfffffffe};

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};
template <class T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

/// An initializer that nothing has read yet.
struct StoredTensor {
  const onnx::TensorProto* proto = nullptr;
  onnx::TensorProto* owned = nullptr;  ///< the same, if its bytes can go once they are read
};

/// A function of the model, with the attributes that have defaults.
struct Function {
  const onnx::FunctionProto* proto = nullptr;
  std::vector<onnx::AttributeProto> defaults;
};

/// How a loop of the program begins, and what it carries besides its iteration's number.
struct LoopStart {
  Value condition = kNoValue;  ///< one bool
  Value trips = kNoValue;      ///< one i64, or none
  std::int64_t limit = 0;
  std::vector<Value> initial;
};
/// What one iteration gives: whether to go on, and what it carries on. `more` are further carried
/// values that only the body's results tell of: their initial value, and made from the one that is
/// carried in.
struct LoopStep {
  Value condition = kNoValue;
  std::vector<Value> next;
  struct More {
    Value initial = kNoValue;
    std::function<Value(Value carried)> next;
  };
  std::vector<More> more;
};
using LoopBody = std::function<LoopStep(Value iteration, const std::vector<Value>& carried)>;

/// The names that the nodes of one graph or function can see.
struct Scope {
  Scope* parent = nullptr;
  const Versions* versions = nullptr;
  const AttributeProtos* attributes = nullptr;  ///< of the function call that is inlined
  int depth = 0;                                ///< of function calls
  ByName<Value> values;
  ByName<StoredTensor> tensors;
  std::unordered_set<std::string> sparse_tensors;
};

/// A dim of which only the first elements are there, as many as the scalar `count` says.
struct CountedDim {
  int dim = 0;
  Value count = kNoValue;
};

/// Evaluates a model in order, as far as it is known: every value has a static shape, nodes on
/// constants are computed at once, the rest is appended to a Graph. Used once.
class Importer {
 public:
  /// The model is kept by reference; tensors are taken out of it as they are read.
  Importer(onnx::ModelProto& model, std::filesystem::path directory, const OnnxOptions& options);

  Graph run();

  // For handlers.
  const Graph& graph() const { return graph_; }
  std::vector<Value> emit(std::string_view op, std::vector<Value> inputs, Attributes attributes,
                          int output_count);
  Value add_constant(ConstantData data);
  ConstantData read(const onnx::TensorProto& tensor);
  /// The nodes of a subgraph on `inputs`, put where we are; its results.
  std::vector<Value> inline_graph(const onnx::GraphProto& graph, Scope& outer,
                                  const std::vector<Value>& inputs = {});
  /// A branch on a run-time condition; its outputs, or poison.
  std::vector<Value> branch(Value condition, const onnx::GraphProto& then_graph,
                            const onnx::GraphProto& else_graph, Scope& outer, int output_count);
  /// A loop of the program that carries `initial`; see GraphNode. `body` is called once, where the
  /// loop's body is built. Gives the number of iterations and what is carried at the end.
  std::vector<Value> loop(const LoopStart& start, const LoopBody& body);
  /// Calls `attempt`, and undoes what it did to the import if that shows that it can't be.
  std::optional<std::vector<Value>> attempt(const std::function<std::vector<Value>()>& attempt);
  Value add_list(ValueList list);
  const ValueList& list(Value value) const;
  /// Throws unsupported if it is a list.
  static void require_tensor(Value value);

  // Sizes that depend on the data (counted.cpp).
  void set_counted(Value value, int dim, Value count);
  const std::vector<CountedDim>& counted_dims(Value value) const;
  /// Throws unsupported if the value has a counted dim; `why` is what would be done to it.
  void require_whole(Value value, const std::string& why) const;

 private:
  struct Side;

  void add_inputs(Scope& scope);
  void add_output(const std::string& name, Value value);
  static void add_tensors(const onnx::GraphProto& graph, Scope& scope);
  void own_tensors(Scope& scope);
  Value read_stored(const std::string& name, const StoredTensor& stored);
  void import_nodes(const NodeProtos& nodes, const std::vector<std::string_view>& wanted,
                    Scope& scope);
  void import_node(const onnx::NodeProto& proto, Scope& scope);
  std::vector<Value> call_handler(const onnx::NodeProto& proto, const OnnxOp& row, int version,
                                  std::vector<Value> inputs, Scope& scope);
  std::vector<Value> call_function(const onnx::NodeProto& proto, const Function& function,
                                   std::vector<Value> inputs, Scope& scope);
  const Function* find_function(const onnx::NodeProto& proto) const;
  Side import_side(const onnx::GraphProto& graph, Scope& outer, int output_count);
  void note_unknown(const onnx::NodeProto& node, const Versions& versions);
  void note_needed(const NeedsValue& need, const std::string& node);

  void spread_counts(const GraphNode& node);
  void check_partners(const OpCall& call, const Factors& factors, const GraphNode& node, int factor,
                      Value count) const;
  void require_counts(const Node& node) const;
  void add_count_outputs();

  Value look_up(std::string_view name, Scope& scope, const std::string& user);
  void bind(const std::string& name, Value value, Scope& scope);
  bool can_fold(const GraphNode& node) const;
  bool is_worth_folding(const OpCall& call) const;
  std::vector<Value> fold(const GraphNode& node, int output_count);

  onnx::ModelProto& model_;
  std::filesystem::path directory_;
  const OnnxOptions& options_;
  Versions versions_;
  std::map<std::pair<std::string, std::string>, Function> functions_;
  Graph graph_;
  GraphBlock* block_ = &graph_.body;
  std::string node_name_;
  std::int64_t node_count_ = 0;
  std::int64_t model_bytes_ = 0;  ///< of the file and the tensors beside it
  std::int64_t made_bytes_ = 0;   ///< of the constants that were computed
  std::unordered_map<std::uint32_t, std::vector<Value>> sources_;  ///< what a value was made from
  std::unordered_map<std::uint32_t, std::vector<CountedDim>> counted_;
  std::vector<ValueList> lists_;
  Problems problems_;
};

/// Versions by domain; throws unsupported for opsets of the default domain after 27.
Versions read_versions(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& sets);
/// 0 if the default domain isn't imported; another domain that isn't has version 1.
std::int64_t version_of(const Versions& versions, std::string_view domain);
/// True for "" and "ai.onnx".
bool is_default_domain(std::string_view domain);

}  // namespace tilemesh::onnx_importer
