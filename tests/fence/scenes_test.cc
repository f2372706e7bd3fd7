// The zombie's write at the fences that need no server: memory, file, HTTP; on each store that is
// always at hand.
#include <fstream>

#include <gtest/gtest.h>

#include "holdfast/fence/fence.h"
#include "holdfast/fence/file.h"
#include "holdfast/fence/http.h"
#include "tests/fence/zombie_scene.h"
#include "tests/support/temp_folder.h"

namespace holdfast::fence {
namespace {

TEST(FenceScenesTest, MemoryRefusesTheZombie) {
  MemoryRecord record;
  int stock = 0;
  play_zombie_scene(
      [&](const Token& token, int items) {
        return record.write("stock", token, Mode::exclusive(), [&] { stock = items; });
      },
      [&] { return stock; });
}

TEST(FenceScenesTest, AFileRefusesTheZombie) {
  const support::TempFolder folder("fence");
  const std::string stock = folder.file("stock");
  play_zombie_scene(
      [&](const Token& token, int items) -> Result<void> {
        auto guard = FileGuard::enter(stock + ".fence", "stock", token);
        if (!guard) return guard.error();
        std::ofstream(stock, std::ios::trunc) << items;
        return {};
      },
      [&] {
        int items = 0;
        std::ifstream(stock) >> items;
        return items;
      });
}

// A server that keeps its stock in memory; what a client sends arrives as it was sent.
TEST(FenceScenesTest, AnHttpServerRefusesTheZombie) {
  MemoryRecord record;
  int stock = 0;
  const auto serve = [&](const HttpHeaders& headers, int items) {
    return admit_http(headers, "stock", "stock",
                      [&](const std::string& resource, const Token& token, const Mode& mode) {
                        return record.write(resource, token, mode, [&] { stock = items; });
                      });
  };
  play_zombie_scene(
      [&](const Token& token, int items) -> Result<void> {
        HttpHeaders headers;
        for (const auto& [name, value] : http_headers("stock", token)) {
          if (name == "Holdfast-Token") headers.token = value;
          if (name == "Holdfast-Lock") headers.lock = value;
          if (name == "Holdfast-Mode") headers.mode = value;
        }
        const HttpAnswer answer = serve(headers, items);
        if (answer.accepted()) return {};
        return Error(answer.status == 412 ? Errc::kLost : Errc::kUnavailable, answer.message);
      },
      [&] { return stock; });
}

}  // namespace
}  // namespace holdfast::fence
