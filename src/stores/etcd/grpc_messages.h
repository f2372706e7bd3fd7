// How gRPC sends the messages of Protocol Buffers: a header that has moved between its versions.
#pragma once

#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>
#endif
