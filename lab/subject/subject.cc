#include "lab/subject/subject.h"

#include "src/base/clock.h"
#include "src/base/random.h"

namespace holdfast::lab {

Id fresh_id() {
  const base::Random128 bits = base::random_128();
  return {bits.high, bits.low};
}

std::int64_t now_ns() { return base::host_boot_now().time_since_epoch().count(); }

}  // namespace holdfast::lab
