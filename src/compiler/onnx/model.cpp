#include "compiler/onnx/model.hpp"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/input_file.hpp"

#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/order.hpp"
#include "compiler/onnx/proto_file.hpp"

namespace tilemesh::onnx_importer {
namespace {

// IR versions 3 to 13 differ in what a model may hold, not in what it means.
constexpr std::int64_t kOldestIr = 3;
constexpr std::int64_t kNewestIr = 13;
constexpr std::int64_t kNewestOpset = 27;

void check(const onnx::ModelProto& model) {
  if (!model.has_graph()) {
    throw Error(ErrorCode::invalid_file, "not an ONNX model: it has no graph");
  }
  if (model.ir_version() < kOldestIr || model.ir_version() > kNewestIr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("unsupported: IR version {}: {} to {} are known: export the model for "
                            "another ONNX version",
                            model.ir_version(), kOldestIr, kNewestIr));
  }
  static_cast<void>(read_versions(model.opset_import()));
}

}  // namespace

bool is_default_domain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}

Versions read_versions(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& sets) {
  Versions versions;
  for (const onnx::OperatorSetIdProto& set : sets) {
    const bool ours = is_default_domain(set.domain());
    if (ours && (set.version() < 1 || set.version() > kNewestOpset)) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("unsupported: opset {} of ai.onnx: 7 to {} are supported, and older "
                              "ones where the ops are still the same: convert the model",
                              set.version(), kNewestOpset));
    }
    versions[ours ? "" : set.domain()] = set.version();
  }
  return versions;
}

std::int64_t version_of(const Versions& versions, std::string_view domain) {
  const bool ours = is_default_domain(domain);
  const auto found = versions.find(ours ? std::string_view() : domain);
  if (found != versions.end()) return found->second;
  return ours ? 0 : 1;  // models often forget the other domains, which have one version
}

onnx::ModelProto read_model(const InputFile& file) {
  if (file.size() == 0) throw Error(ErrorCode::invalid_file, "the file is empty");
  if (std::cmp_greater(file.size(), std::numeric_limits<int>::max())) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the file has {} bytes, over the 2 GiB that its format allows: save the "
                    "model with external data",
                    file.size()));
  }
  onnx::ModelProto model;
  if (!parse_file(file, model)) {
    throw Error(ErrorCode::invalid_file, "not an ONNX model, or damaged");
  }
  check(model);
  sort_nodes(model);
  return model;
}

onnx::ModelProto parse_model(std::string_view bytes) {
  onnx::ModelProto model;
  if (std::cmp_greater(bytes.size(), std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorCode::invalid_file, "not an ONNX model, or damaged");
  }
  check(model);
  sort_nodes(model);
  return model;
}

}  // namespace tilemesh::onnx_importer
