#include "process.hpp"

#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "tilemesh/base/output_file.hpp"

#include "command.hpp"

namespace tilemesh::cli {
namespace {

/// Opened the wrong way round on purpose: reading and writing fail as they do on a closed stream.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) {
      // The lowest number that is free, which is this one.
      ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

extern "C" {

static void clean_up_and_end(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // comes when this handler returns
}

static void end_on_lost_file(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code != BUS_ADRERR) {
    clean_up_and_end(signal);
    return;
  }
  remove_unfinished_files();
  static constexpr std::string_view kMessage =
      "tilemesh: error: a file became shorter while it was in use: leave it alone meanwhile, or "
      "replace it by renaming\n";
  if (::write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) {
    // Nobody to tell.
  }
  ::_exit(static_cast<int>(ExitCode::failure));
}

}  // extern "C"

/// A signal that the caller had ignored, as nohup does, stays so.
void on_signal(int signal, const struct sigaction& action) {
  struct sigaction before {};
  if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void prepare_process() {
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction end {};
  end.sa_handler = clean_up_and_end;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU}) {
    on_signal(signal, end);
  }
  struct sigaction lost {};
  lost.sa_sigaction = end_on_lost_file;
  lost.sa_flags = SA_SIGINFO;
  on_signal(SIGBUS, lost);
}

}  // namespace tilemesh::cli
