#include "holdfast/owner.h"

#include <utility>

#include "src/base/random.h"

namespace holdfast {

Owner::Owner(std::string label) : label_(std::move(label)) {
  const base::Random128 random = base::random_128();
  id_ = (label_.empty() ? "owner" : label_) + "#" + base::to_hex(random.high, random.low);
}

}  // namespace holdfast
