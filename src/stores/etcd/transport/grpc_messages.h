// Lets gRPC send Protocol Buffers messages (through a header that has moved between its versions),
// and read them up to a size limit.
#pragma once

#include <string_view>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>
#endif

#include "src/port/answer_limit.h"
#include "src/stores/etcd/transport/answer_size.h"

namespace holdfast::stores::etcd {

// While a message is read, its bytes alone take twice their length.
inline constexpr int kLongestMessage = static_cast<int>(port::kMostAnswerMemory / 2);

// A server's message, or an empty one if it was too large.
template <typename Message>
struct Answer {
  Message message;
  bool too_large = false;
};

}  // namespace holdfast::stores::etcd

template <typename Message>
class grpc::SerializationTraits<holdfast::stores::etcd::Answer<Message>, void> {
 public:
  static Status Deserialize(ByteBuffer* bytes, holdfast::stores::etcd::Answer<Message>* answer) {
    answer->message.Clear();
    {
      Slice whole;
      if (Status status = bytes->DumpToSingleSlice(&whole); !status.ok()) return status;
      const std::string_view text(reinterpret_cast<const char*>(whole.begin()), whole.size());
      answer->too_large =
          holdfast::stores::etcd::memory_to_read(text) > holdfast::port::kMostAnswerMemory;
    }
    if (!answer->too_large) {
      return SerializationTraits<Message>::Deserialize(bytes, &answer->message);
    }
    bytes->Clear();
    return Status::OK;
  }
};
