// `failover`: which store of a chain is used, and a switch by hand.

#include <string>

#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/settings.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::string sentence(const ChainStatus& chain) {
  const std::string store = "store " + std::to_string(chain.place) + " of " +
                            std::to_string(chain.stores) + ", " + printable(chain.store);
  if (chain.epoch == 0) return "the chain was never used; it will begin with " + store + "\n";
  return store + (chain.draining ? ", after the drain" : " is used") + "; epoch " +
         std::to_string(chain.epoch) + "\n";
}

}  // namespace

int failover_command(const FailoverOptions& options) {
  Settings settings;
  if (auto resolved = resolve(options.common, settings); !resolved) {
    return fail(resolved.error(), "");
  }
  const auto chain = options.verb == "status"
                         ? chain_status(settings.store.url)
                         : switch_chain(settings.store.url, options.place);
  if (!chain) return fail(chain.error(), settings.shown_store);
  return answer(options.common,
                {{"place", chain->place},
                 {"stores", chain->stores},
                 {"store", chain->store},
                 {"epoch", chain->epoch},
                 {"draining", chain->draining}},
                sentence(*chain));
}

}  // namespace holdfast::cli
