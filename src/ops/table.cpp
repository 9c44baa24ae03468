#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"

#include "tables.hpp"

namespace tilemesh {
namespace {

std::vector<OpDef> sorted_table() {
  std::vector<OpDef> table;
  for (const std::span<const OpDef> part : {ops::unary_ops(),
                                            ops::binary_ops(),
                                            ops::compare_ops(),
                                            ops::map_ops(),
                                            ops::matmul_ops(),
                                            ops::einsum_ops(),
                                            ops::conv_ops(),
                                            ops::pool_ops(),
                                            ops::norm_ops(),
                                            ops::softmax_ops(),
                                            ops::reduce_ops(),
                                            ops::search_ops(),
                                            ops::movement_ops(),
                                            ops::rearrange_ops(),
                                            ops::resize_ops(),
                                            ops::index_ops(),
                                            ops::recurrent_ops(),
                                            ops::grid_sample_ops(),
                                            ops::roi_ops(),
                                            ops::bounded_ops(),
                                            ops::suppression_ops(),
                                            ops::column_ops(),
                                            ops::fourier_ops(),
                                            ops::determinant_ops(),
                                            ops::ngram_ops(),
                                            ops::bit_ops(),
                                            ops::cumulative_ops(),
                                            ops::narrow_cast_ops(),
                                            ops::quantize_ops(),
                                            ops::integer_product_ops(),
                                            ops::quantized_arithmetic_ops()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  std::ranges::sort(table, {}, &OpDef::name);
  return table;
}

}  // namespace

std::span<const OpDef> all_ops() {
  static const std::vector<OpDef> table = sorted_table();
  return table;
}

const OpDef* find_op(std::string_view name) {
  const std::span<const OpDef> table = all_ops();
  const auto at = std::ranges::lower_bound(table, name, {}, &OpDef::name);
  return at != table.end() && at->name == name ? &*at : nullptr;
}

const OpDef& get_op(std::string_view name) {
  if (const OpDef* def = find_op(name)) return *def;
  std::vector<std::string> names;
  for (const OpDef& def : all_ops())
    names.emplace_back(def.name);
  throw Error(ErrorCode::unsupported,
              fmt::format("there is no op \"{}\"{}", name, did_you_mean(name, names)));
}

}  // namespace tilemesh
