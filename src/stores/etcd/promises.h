// What the etcd store gives under which fault, as data.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::etcd {

Guarantees promises(bool foreign_recipe);

}  // namespace holdfast::stores::etcd
