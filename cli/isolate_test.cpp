#include "isolate.hpp"

#include <csignal>
#include <cstdio>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace tilemesh::cli {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::vector<IsolatedResult> run(std::size_t count, seconds timeout,
                                const std::function<std::string(std::size_t)>& function) {
  std::vector<IsolatedResult> results(count);
  run_isolated(count, 2, timeout, function,
               [&](std::size_t i, const IsolatedResult& result) { results[i] = result; });
  return results;
}

TEST(Isolate, GivesBackWhatEachFunctionSaid) {
  const std::string large(200000, 'x');  // more than a pipe holds
  const auto results =
      run(5, seconds(600), [&](std::size_t i) { return std::to_string(i) + large; });
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].text, std::to_string(i) + large);
    EXPECT_EQ(results[i].failure, "");
  }
}

TEST(Isolate, ACrashEndsOneOnly) {
  const auto results = run(3, seconds(600), [](std::size_t i) {
    if (i == 1) {
      std::fputs("about to fall\n", stderr);
      // Not a fault: sanitizers catch that and exit.
      std::signal(SIGTERM, SIG_DFL);
      std::raise(SIGTERM);
    }
    return std::string("fine");
  });
  EXPECT_EQ(results[0].text, "fine");
  EXPECT_EQ(results[2].text, "fine");
  EXPECT_THAT(results[1].failure, HasSubstr("crashed with signal 15"));
  EXPECT_THAT(results[1].failure, HasSubstr("about to fall"));
}

TEST(Isolate, AnExceptionIsAFailureWithItsText) {
  const auto results =
      run(1, seconds(600), [](std::size_t) -> std::string { throw std::runtime_error("oh no"); });
  EXPECT_EQ(results[0].failure, "ended with 1: oh no");
}

TEST(Isolate, AHangIsGivenUp) {
  const auto results = run(2, seconds(1), [](std::size_t i) {
    while (i == 0) {
      ::pause();
    }
    return std::string("fine");
  });
  EXPECT_EQ(results[0].failure, "timed out after 1 s");
  EXPECT_EQ(results[1].text, "fine");
}

}  // namespace
}  // namespace tilemesh::cli
