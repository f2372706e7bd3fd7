// The file that keeps a resource's newest token, as whoever may write to it left it.

#include <fstream>

#include "holdfast/fence/file.h"
#include "tests/fuzz/target.h"
#include "tests/support/temp_folder.h"

namespace holdfast::fuzz::fence_record {

void run(std::string_view input) {
  static const support::TempFolder folder("fuzz-fence");
  const std::string path = folder.file("stock.fence");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << input;
  const auto recorded = fence::FileGuard::recorded(path, "stock");
  if (!recorded) {
    const Errc code = recorded.error().code();
    demand(code == Errc::kCorruptState || code == Errc::kVersionMismatch ||
               code == Errc::kInvalidArgument,
           "what is no record is refused as such");
    return;
  }
  demand(recorded->has_value(), "a file is never taken for none");
  // There is one way to write a record.
  const std::string text((*recorded)->to_string());
  demand(input.find("\ntoken " + text + "\n") != std::string_view::npos, "the token is the file's");
  if (**recorded == Token{}) return;
  demand(fence::FileGuard::enter(path, "stock", **recorded).has_value(),
         "an equal one is admitted");
}

}  // namespace holdfast::fuzz::fence_record

HOLDFAST_FUZZ_TARGET(fence_record)
