// Takes and releases a lock on each store URL that is given; ends with 0 when all of it worked.
#include <cstdio>

#include <holdfast/holdfast.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto client = holdfast::Client::connect(argv[i]);
    if (!client) return std::fprintf(stderr, "%s\n", client.error().message().c_str()), 1;
    auto lease = client->mutex("consumer").acquire({.wait = std::chrono::seconds(5)});
    if (!lease) return std::fprintf(stderr, "%s\n", lease.error().message().c_str()), 1;
    std::printf("%s: %s\n", argv[i], lease->token().to_string().c_str());
    if (!lease->release()) return 1;
  }
  return argc > 1 ? 0 : 1;
}
