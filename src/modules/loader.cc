// Compiled into libholdfast.so in place of the stores that are modules: their factories, which load
// the module first. A loaded module stays: its threads and the objects that a program keeps use its
// code.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <asio/detail/thread_context.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "holdfast/errc.h"
#include "holdfast/result.h"
#include "src/modules/module.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/store_url.h"
#include "src/stores/loaded.h"

namespace holdfast::stores {
namespace {

using modules::StoreModule;

// Beside the library wherever it was moved to, then where it was to be installed. No variable of
// the environment adds a folder: whoever sets one would choose the code of programs with more
// rights.
std::vector<std::string> folders() {
  std::vector<std::string> all;
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&folders), &self) != 0 && self.dli_fname != nullptr) {
    const std::unique_ptr<char, decltype(&free)> path(realpath(self.dli_fname, nullptr), &free);
    if (path) {
      const std::string_view file(path.get());
      all.push_back(std::string(file.substr(0, file.rfind('/'))) + "/holdfast");
    }
  }
  if (all.empty() || all.front() != HOLDFAST_MODULE_FOLDER)
    all.emplace_back(HOLDFAST_MODULE_FOLDER);
  return all;
}

Error not_installed(const std::string& package, const std::vector<std::string>& looked_in) {
  std::string where;
  for (const std::string& folder : looked_in) where += (where.empty() ? "" : " or ") + folder;
  return Error(Errc::kUnsupported, "the store needs the module " + package +
                                       ".so, which is not in " + where + ": install the package " +
                                       package);
}

Result<const StoreModule*> load(const std::string& package, const std::string& path) {
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* why = dlerror();
    return Error(Errc::kUnsupported, "cannot load the store module: " +
                                         std::string(why != nullptr ? why : path.c_str()) +
                                         ": install " + package + " " HOLDFAST_VERSION " again");
  }
  const auto* entry = static_cast<const StoreModule*>(dlsym(module, modules::kEntry));
  if (entry == nullptr || std::strcmp(entry->build, modules::kBuild) != 0) {
    const std::string found = entry == nullptr ? "not of Holdfast" : entry->build;
    return Error(Errc::kUnsupported, "the store module " + path + " is " + found +
                                         ", and the library is " + modules::kBuild + ": install " +
                                         package + " " HOLDFAST_VERSION);
  }
  return entry;
}

Result<std::unique_ptr<port::Store>> make_store(const std::string& name, port::StoreUrl url,
                                                const port::StoreContext& context) {
  const std::string package = "libholdfast-store-" + name;
  const auto looked_in = folders();
  const std::string file = "/" + package + ".so";
  for (const std::string& folder : looked_in) {
    const std::string path = folder + file;
    if (access(path.c_str(), F_OK) != 0) continue;
    const auto module = load(package, path);
    if (!module) return module.error();
    // First in the loop's queue, so that all that the store does there comes after it. The module
    // knows no other thread.
    if (context.loop != nullptr) context.loop->keep();
    asio::post(*context.io, [&io = *context.io, enter = (*module)->enter_loop] {
      enter(io, *asio::detail::thread_context::top_of_thread_call_stack());
    });
    return (*module)->make(std::move(url), context);
  }
  return not_installed(package, looked_in);
}

}  // namespace

#define HOLDFAST_LOADED(name)                                                                   \
  Result<std::unique_ptr<port::Store>> make_##name##_store(port::StoreUrl url,                  \
                                                           const port::StoreContext& context) { \
    return make_store(#name, std::move(url), context);                                          \
  }
HOLDFAST_LOADED_STORES(HOLDFAST_LOADED)

}  // namespace holdfast::stores
