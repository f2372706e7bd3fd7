// Holdfast itself as a subject: a Client on any store, with its own renewals in the background.
//
// Guarantee: the listener hears of a renewal within some milliseconds of its answer, and before a
// call of the hold that relies on the renewal returns.
// Not guaranteed: that every renewal is reported. Where two renewals come between two checks (some
// milliseconds; more for a process without CPU), only the later one is. Its reported send is then
// as early as the missed one's may have been.
#pragma once

#include "lab/subject/subject.h"

namespace holdfast::lab {

SubjectKind holdfast_subject();

}  // namespace holdfast::lab
