// tilemesh verify --data FOLDER: many tests, each in a process of its own.

#include <algorithm>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"

#include "isolate.hpp"
#include "test_data.hpp"
#include "verify.hpp"

namespace tilemesh::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string name_of(const fs::path& folder) {
  const fs::path name = folder.filename();
  return name.empty() ? folder.parent_path().filename().string() : name.string();
}

/// Without the folder's path, which is in the test's name already.
std::string without_path(std::string text, const fs::path& folder) {
  const std::string path = folder.string() + "/";
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) {
    text.erase(at, path.size());
  }
  return text;
}

/// What a child says of its test, as text.
std::string run_as_text(const fs::path& folder, const VerifyOptions& options) {
  TestResult result;
  try {
    result = run_test(name_of(folder), folder / "model.onnx", find_data_sets(folder), options);
  } catch (const std::exception& error) {
    result.reason = error.what();
  }
  Json json = {{"status", static_cast<int>(result.status)},
               {"reason", without_path(result.reason, folder)}};
  if (result.max_error) {
    json["max_error"] = *result.max_error;  // infinity becomes null
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TestResult parse_result(const std::string& name, const IsolatedResult& isolated) {
  TestResult result;
  result.name = name;
  if (!isolated.failure.empty()) {
    result.reason = isolated.failure;
    return result;
  }
  const Json json = Json::parse(isolated.text, nullptr, false);
  if (!json.is_object()) {
    result.reason = "ended without a result";
    return result;
  }
  result.status = static_cast<TestStatus>(json["status"].get<int>());
  result.reason = json["reason"].get<std::string>();
  if (json.contains("max_error") && json["max_error"].is_number()) {
    result.max_error = json["max_error"].get<double>();
  }
  return result;
}

/// The same for reasons that differ in the names of nodes, tensors and files alone.
std::string without_names(const std::string& reason) {
  std::string kind;
  std::size_t at = 0;
  while (at < reason.size()) {
    const std::size_t open = reason.find('"', at);
    const std::size_t close = open == std::string::npos ? open : reason.find('"', open + 1);
    if (close == std::string::npos) {
      break;
    }
    kind += reason.substr(at, open - at);
    kind.erase(kind.find_last_not_of(' ') + 1);
    at = close + 1;
  }
  return kind + reason.substr(at);
}

/// Counts of each status; the differing and failed tests one by one, the unsupported by reason.
void print_summary(const std::vector<TestResult>& results) {
  std::map<TestStatus, std::size_t> counts;
  std::map<std::string, std::size_t> reasons;
  for (const TestResult& result : results) {
    ++counts[result.status];
    if (result.status == TestStatus::unsupported) {
      ++reasons[without_names(result.reason)];
    } else if (result.status != TestStatus::passed) {
      print(fmt::format("{} {}: {}\n", to_string(result.status), printable_line(result.name),
                        printable_block(result.reason)));
    }
  }
  std::vector<std::pair<std::size_t, std::string>> by_count;
  for (const auto& [reason, count] : reasons) {
    by_count.emplace_back(count, reason);
  }
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [count, reason] : by_count) {
    print(fmt::format("{} unsupported: {}\n", count, printable_block(reason)));
  }
  print(fmt::format("{} tests: {} passed, {} differed, {} unsupported, {} failed\n", results.size(),
                    counts[TestStatus::passed], counts[TestStatus::differed],
                    counts[TestStatus::unsupported], counts[TestStatus::failed]));
}

}  // namespace

std::vector<TestResult> verify_folders(const VerifyOptions& options) {
  std::vector<fs::path> tests;
  for (const std::string& data : options.data) {
    const std::vector<fs::path> found = find_tests(data);
    tests.insert(tests.end(), found.begin(), found.end());
  }
  VerifyOptions own = options;
  if (own.compile.mesh.threads_per_device == 0) {
    own.compile.mesh.threads_per_device = 1;  // the tests run side by side already
  }
  const std::size_t jobs = options.jobs > 0 ? static_cast<std::size_t>(options.jobs)
                                            : std::max(1U, std::thread::hardware_concurrency());
  std::vector<TestResult> results(tests.size());
  std::size_t done = 0;
  Progress progress;
  run_isolated(
      tests.size(), jobs, std::chrono::seconds(options.timeout_seconds),
      [&](std::size_t i) { return run_as_text(tests[i], own); },
      [&](std::size_t i, const IsolatedResult& isolated) {
        results[i] = parse_result(name_of(tests[i]), isolated);
        progress.show(results[i].name,
                      static_cast<double>(++done) / static_cast<double>(tests.size()));
      });
  progress.clear();
  if (!options.prints_json()) {
    print_summary(results);
  }
  return results;
}

}  // namespace tilemesh::cli
