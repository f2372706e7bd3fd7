// Everything a user of Holdfast needs, in one include.
#pragma once

#include "holdfast/client.h"
#include "holdfast/errc.h"
#include "holdfast/fence/fence.h"
#include "holdfast/guarantees.h"
#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/mutex.h"
#include "holdfast/observer.h"
#include "holdfast/options.h"
#include "holdfast/owner.h"
#include "holdfast/result.h"
#include "holdfast/token.h"
