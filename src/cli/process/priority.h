// How soon this process is given the processor on a busy machine.
#pragma once

namespace holdfast::cli {

// Asks for the processor as early as this process may. Real time and a low nice value need
// privileges. A short slice, which also means an earlier turn, is for everybody (Linux 6.12).
void raise_priority();

}  // namespace holdfast::cli
