// The configuration file.

#include <sys/mman.h>
#include <unistd.h>

#include "src/cli/options/config.h"
#include "src/cli/process/fd.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::cli_config {
namespace {

void check(const std::optional<int>& code, int least = 1) {
  demand(!code || (*code >= least && *code <= 255), "a status is one");
}

}  // namespace

void run(std::string_view input) {
  static const cli::Fd file(::memfd_create("config", MFD_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  demand(::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), input.data(), input.size(), 0) ==
                                                static_cast<ssize_t>(input.size()),
         "the test has a file");
  cli::Config config;
  const auto read = cli::load_config(path, config);
  if (!read) {
    const std::string& why = read.error().message();
    demand(read.error().code() == Errc::kInvalidArgument, "a file is refused as invalid");
    demand(why.find(path) != std::string::npos, "the error names the file");
    demand(why.find(path + ":") != std::string::npos, "and the line");
    for (const char c : why) {
      demand(static_cast<unsigned char>(c) >= 0x20, "a message has no control characters");
    }
  }
  demand(!config.ttl || config.ttl->count() > 0, "a lease has a length");
  demand(!config.run.lock.max_hold || config.run.lock.max_hold->count() > 0, "so has a hold");
  check(config.run.exit_lost);
  check(config.run.exit_timeout, 0);
  check(config.run.exit_error);
}

}  // namespace holdfast::fuzz::cli_config

HOLDFAST_FUZZ_TARGET(cli_config)
