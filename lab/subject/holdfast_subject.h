// Holdfast itself as a subject: a Client on any store, with its own renewals in the background.
//
// Guarantee: a renewal is told to the listener within some milliseconds of its answer, and before
// any call of the hold that relies on it returns.
// Not guaranteed: that every renewal is told: of two between two looks (some milliseconds; longer
// for a process that does not get to run) the later one is, and its sending is told as early as the
// one that was missed may have been.
#pragma once

#include "lab/subject/subject.h"

namespace holdfast::lab {

SubjectKind holdfast_subject();

}  // namespace holdfast::lab
