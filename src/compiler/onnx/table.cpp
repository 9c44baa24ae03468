#include "compiler/onnx/table.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tilemesh/base/close_names.hpp"

#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, name
using Table = std::map<Key, const OnnxOp*>;

Table make_table() {
  Table rows_by_name;
  for (const std::span<const OnnxOp> rows : {elementwise_rows(),
                                             generator_rows(),
                                             shape_rows(),
                                             slice_rows(),
                                             resize_rows(),
                                             conv_rows(),
                                             matmul_rows(),
                                             norm_rows(),
                                             reduce_rows(),
                                             index_rows(),
                                             loss_rows(),
                                             quantize_rows(),
                                             integer_product_rows(),
                                             recurrent_rows(),
                                             control_rows(),
                                             bounded_rows(),
                                             sampling_rows(),
                                             spectrum_rows(),
                                             bit_rows(),
                                             transformer_rows(),
                                             recurrence_rows(),
                                             microsoft_fused_rows(),
                                             microsoft_norm_rows(),
                                             microsoft_attention_rows(),
                                             group_query_attention_rows(),
                                             loop_rows(),
                                             sequence_rows(),
                                             training_rows(),
                                             quantized_op_rows(),
                                             quantized_product_rows(),
                                             packed_weight_rows(),
                                             dynamic_lstm_rows()}) {
    for (const OnnxOp& row : rows) {
      TILEMESH_CHECK(rows_by_name.emplace(Key(row.domain, row.name), &row).second,
                     "an ONNX op has two rows");
    }
  }
  return rows_by_name;
}

constexpr std::string_view kStrings =
    "programs have no strings: cut the model behind it, and give what it makes as an input";
constexpr std::string_view kRandom =
    "programs have no random numbers: draw them before, and give them as an input";
constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"StringNormalizer", kStrings},
    {"StringConcat", kStrings},
    {"StringSplit", kStrings},
    {"RegexFullMatch", kStrings},
    {"Bernoulli", kRandom},
    {"Multinomial", kRandom},
    {"RandomNormal", kRandom},
    {"RandomNormalLike", kRandom},
    {"RandomUniform", kRandom},
    {"RandomUniformLike", kRandom},
    {"ImageDecoder", "programs read no files: decode the image before, and give its elements"},
};

// Domains of which nothing is there.
constexpr std::pair<std::string_view, std::string_view> kDomainReasons[] = {
    {"com.microsoft.nchwc",
     "a layout that onnxruntime chose for one machine: have it save the model with "
     "ORT_ENABLE_EXTENDED at most"},
    {"ai.onnx.ml", "trees and other classical models aren't tensor programs"},
    {"ai.onnx.training", "programs don't train"},
    {"ai.onnx.preview.training",
     "programs have no gradients: take the operator's step, Adagrad, Adam and Momentum are there, "
     "and give the gradients as inputs"},
};

const Table& table() {
  static const Table all = make_table();
  return all;
}

// The domain as the rows have it.
std::string_view own_domain(std::string_view domain) {
  return is_default_domain(domain) ? std::string_view() : domain;
}

}  // namespace

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name) {
  const auto found = table().find(Key(own_domain(domain), name));
  return found == table().end() ? nullptr : found->second;
}

std::string close_onnx_ops(std::string_view domain, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [key, row] : table()) {
    if (key.first == own_domain(domain)) names.emplace_back(key.second);
  }
  return did_you_mean(name, names);
}

std::string_view reason_for_absence(std::string_view domain, std::string_view name) {
  for (const auto& [of, reason] : kDomainReasons) {
    if (of == domain) return reason;
  }
  if (!is_default_domain(domain)) return {};
  for (const auto& [op, reason] : kReasons) {
    if (op == name) return reason;
  }
  return {};
}

void direct(Node& node) {
  Attributes attributes;
  for (const NumberRow& row : node.row().numbers) {
    if (!row.name.empty()) attributes.set(row.ours, node.number(row.name, row.fallback));
  }
  node.set_all(
      node.emit_many(node.row().op, node.inputs(), std::move(attributes), node.output_count()));
}

}  // namespace tilemesh::onnx_importer
