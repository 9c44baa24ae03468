#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare.hpp"
#include "model_options.hpp"

namespace tilemesh::cli {

struct VerifyOptions {
  std::string model;  ///< empty: the data folders hold tests
  std::vector<std::string> data;
  ModelOptions compile;
  Tolerance tolerance;
  std::string program;    ///< of a binary
  std::string json_file;  ///< "-": the standard output
  int timeout_seconds = 120;
  int jobs = 0;  ///< 0: one per core

  /// Then nothing else is printed.
  bool prints_json() const { return json_file == "-"; }
};

enum class TestStatus { passed, differed, unsupported, failed };
std::string_view to_string(TestStatus status);

/// One data set, or one folder of the node tests.
struct TestResult {
  std::string name;
  TestStatus status = TestStatus::failed;
  std::string reason;                ///< why it didn't pass
  std::optional<double> max_error;   ///< largest of all outputs, if any was compared
  std::vector<std::string> details;  ///< one line an output
};

/// Compiles a model for the shapes of some data sets, runs them, compares. Never throws for what is
/// the model's or the data's fault: that is the result.
TestResult run_test(const std::string& name, const std::filesystem::path& model,
                    const std::vector<std::filesystem::path>& data_sets,
                    const VerifyOptions& options);

/// Runs the tests in folders, each in a process of its own.
std::vector<TestResult> verify_folders(const VerifyOptions& options);

/// Writes [{name, status, reason, max_error}].
void write_results(const std::string& file, const std::vector<TestResult>& results);

}  // namespace tilemesh::cli
