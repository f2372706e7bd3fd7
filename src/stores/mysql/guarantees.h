// The guarantees of the MySQL and MariaDB store, under each fault.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::mysql {

Guarantees guarantees();

}  // namespace holdfast::stores::mysql
