// The most that one answer of a server may cost a client: hostile and broken servers send without
// end.
//
// Guarantee: on Redis, etcd and Consul an answer, with all that is made of its bytes, takes no more
// memory than this. Beyond it the connection is closed. Not guaranteed: that for several answers
// together, nor for ZooKeeper, whose own library reads. Errors: kCorruptState.
#pragma once

#include <cstddef>

namespace holdfast::port {

inline constexpr std::size_t kMostAnswerMemory = std::size_t{64} << 20;

// Follows the name of the server.
inline constexpr char kAnswerTooLarge[] =
    ": the answer would take more than 64 MiB here and was cut off; see that the URL names the "
    "right "
    "server, and of very many locks ask for fewer (a longer prefix)";

}  // namespace holdfast::port
