// How soon this process is given the processor on a busy machine.
#pragma once

namespace holdfast::cli {

// As soon as this process may ask for: real time and a low nice value are for the privileged; a
// short slice, for which one is called sooner, is for everybody (Linux 6.12).
void raise_priority();

}  // namespace holdfast::cli
