#include "testing.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

/// The 1-grams 2 and 3, and the 2-grams (5,6), (7,8) and (6,7).
Attributes pool(const char* mode, std::int64_t shortest, std::int64_t longest, std::int64_t skip) {
  return {{"mode", std::string(mode)},
          {"shortest", shortest},
          {"longest", longest},
          {"max_skip", skip},
          {"pool", Ints{2, 3, 5, 6, 7, 8, 6, 7}},
          {"starts", Ints{0, 2}},
          {"columns", Ints{0, 1, 2, 3, 5}}};
}

std::vector<float> count(const Value& x, const Attributes& attributes) {
  return elements<float>(run("ngram_counts", {x}, attributes));
}

TEST(NgramCounts, CountsSequencesOfItems) {
  const Value x = i64({7}, {1, 5, 6, 2, 7, 8, 2});
  EXPECT_THAT(count(x, pool("TF", 1, 1, 0)), ElementsAre(2, 0, 0, 0, 0, 0));
  EXPECT_THAT(count(x, pool("TF", 1, 2, 0)), ElementsAre(2, 0, 1, 1, 0, 0));
  EXPECT_THAT(count(x, pool("TF", 2, 2, 0)), ElementsAre(0, 0, 1, 1, 0, 0));
  // With one item left out, 6 is followed by 7; single items still count once.
  EXPECT_THAT(count(x, pool("TF", 1, 2, 1)), ElementsAre(2, 0, 1, 1, 0, 1));
}

TEST(NgramCounts, WeighsThem) {
  const Value x = i64({2, 3}, {2, 2, 3, 6, 7, 8});
  Attributes attributes = pool("IDF", 1, 2, 0);
  EXPECT_THAT(count(x, attributes), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1));
  attributes.set("weights", std::vector<double>{0.5, 2, 3, 4, 5});
  EXPECT_THAT(count(x, attributes), ElementsAre(0.5F, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 5));
  attributes.set("mode", std::string("TFIDF"));
  EXPECT_THAT(count(x, attributes), ElementsAre(1, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 5));
}

TEST(NgramCounts, WantsAPoolThatComesOutEven) {
  const Value x = i64({0}, {});
  EXPECT_THAT(count(x, pool("TF", 1, 2, 3)), ElementsAre(0, 0, 0, 0, 0, 0));
  Attributes attributes = pool("TF", 1, 2, 0);
  attributes.set("starts", Ints{0, 3});
  EXPECT_THAT(infer_error("ngram_counts", {x}, attributes),
              HasSubstr("2-grams from 3 to 8 don't fit a pool of 8 items"));
  attributes.set("starts", Ints{0, 4});
  EXPECT_THAT(infer_error("ngram_counts", {x}, attributes), HasSubstr("6 n-grams want"));
}

}  // namespace
}  // namespace tilemesh::ops::testing
