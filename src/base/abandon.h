// For a forked child: lets go of what the parent's threads and descriptors belong to.
//
// Destroying it would change the epoll instance that the parent uses, or wait for threads that the
// child does not have. So it is never destroyed.
#pragma once

#include <memory>
#include <new>
#include <utility>

namespace holdfast::base {

template <typename T>
void abandon(std::shared_ptr<T> object) noexcept {
  static_cast<void>(new (std::nothrow) std::shared_ptr<T>(std::move(object)));
}

}  // namespace holdfast::base
