#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using Ints = std::vector<std::int64_t>;

}  // namespace

void add_vision(std::vector<Case>& cases) {
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    cases.push_back({std::string("grid_sample ") + mode,
                     {random({2, 3, 4, 5}), random({2, 3, 2, 2})},
                     {{"mode", std::string(mode)}, {"padding", std::string("reflection")}},
                     0,
                     {},
                     "grid_sample"});
  }
  cases.push_back({"grid_sample", {random({2, 2, 3, 2, 4}), random({2, 1, 2, 3, 3})}});
  cases.push_back(
      {"roi_align",
       {random({2, 3, 5, 6}), f32({2, 4}, {0.5F, 0.25F, 3.5F, 4.0F, -1.0F, 1.0F, 2.0F, 2.5F}),
        i64({2}, {1, 0})},
       {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{3}}}});
  cases.push_back({"max_roi_pool",
                   {random({2, 3, 5, 6}), f32({2, 5}, {0, 1, 1, 4, 3, 1, 0, 0, 2, 2})},
                   {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}}});
  cases.push_back(
      {"compress", {random({3, 4, 2}), boolean({3}, {1, 0, 1})}, {{"axis", std::int64_t{1}}}, 2});
  cases.push_back({"non_zero", {f32({2, 3}, {0, 1, 0, 2, 3, 0})}, {}, 2});
  cases.push_back({"unique", {f32({5}, {2, 1, 2, 3, 1})}, {}, 5});
  cases.push_back({"non_max_suppression",
                   {f32({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 1.1F, 2, 2, 3, 3}), random({1, 2, 3})},
                   {{"max_per_class", std::int64_t{2}}},
                   2});
  cases.push_back(
      {"col2im", {random({2, 3 * 4, 6})}, {{"image", Ints{3, 4}}, {"kernel", Ints{2, 2}}}});
  cases.push_back({"deform_columns",
                   {random({2, 3, 4, 5}), random({2, 8, 3, 4}), random({2, 4, 3, 4})},
                   {{"kernel", Ints{2, 2}}}});
  cases.push_back(
      {"dft", {random({2, 5, 3, 2})}, {{"axis", std::int64_t{1}}, {"length", std::int64_t{5}}}});
  cases.push_back({"ngram_counts",
                   {i64({2, 3}, {1, 2, 1, 2, 1, 3})},
                   {{"shortest", std::int64_t{1}},
                    {"longest", std::int64_t{2}},
                    {"pool", Ints{1, 2, 1}},
                    {"starts", Ints{0, 1}},
                    {"columns", Ints{1, 0}}}});
  cases.push_back({"determinant", {random({2, 3, 3})}});
}

}  // namespace tilemesh::ops::testing
