#include "src/port/enter_loop.h"

namespace holdfast::port {
namespace {

struct Library {};

}  // namespace

void enter_loop(asio::io_context& io, asio::detail::thread_info_base& thread) {
  enter_loop_here<Library>(io, thread);
}

}  // namespace holdfast::port
