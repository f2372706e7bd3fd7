// For a test in another language: runs a Once to its end, and leaves its outcome at the store.
//
//   finish_once URL KEY OUTCOME
#include <cstdio>

#include "holdfast/client.h"
#include "holdfast/once.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto client = holdfast::Client::connect(argv[1]);
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message().c_str());
    return 1;
  }
  const auto outcome = client->once(argv[2]).run(
      [&](holdfast::Lease&) { return holdfast::Result<std::string>(argv[3]); });
  if (!outcome) std::fprintf(stderr, "%s\n", outcome.error().message().c_str());
  return outcome ? 0 : 1;
}
