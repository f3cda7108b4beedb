#include "engine/nodes/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/base/error.h"

namespace skald::nodes {
namespace {

constexpr uint64_t kFrameMagic = 0x31454d4152464b53;  // "SKFRAME1"

}  // namespace

Frames::Result Frames::await(short event) const {
  pollfd both[2] = {{socket_.fd(), event, 0}, {wake_fd_, POLLIN, 0}};
  while (poll(both, 2, -1) < 0) {
    if (errno != EINTR) return Result::Ended;
  }
  return both[1].revents != 0 ? Result::Woken : Result::Done;
}

Frames::Result Frames::send_bytes(std::span<const std::byte> bytes, uint64_t& sent) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      const Result ready = await(POLLOUT);
      if (ready != Result::Done) return ready;
    } else if (count == 0 || errno != EINTR) {
      return Result::Ended;
    }
  }
  return Result::Done;
}

Frames::Result Frames::receive_bytes(std::span<std::byte> bytes, uint64_t& received) {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      received += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      const Result ready = await(POLLIN);
      if (ready != Result::Done) return ready;
    } else if (count == 0 || errno != EINTR) {
      return Result::Ended;
    }
  }
  return Result::Done;
}

Frames::Result Frames::complete() {
  static constexpr std::array<std::byte, 1 << 16> kZeros = {};
  while (sent_ < out_bytes_) {
    const auto head = std::as_bytes(std::span(&out_, 1));
    const auto next = sent_ < head.size()
                          ? head.subspan(static_cast<size_t>(sent_))
                          : std::span(kZeros).first(static_cast<size_t>(
                                std::min<uint64_t>(kZeros.size(), out_bytes_ - sent_)));
    const Result result = send_bytes(next, sent_);
    if (result != Result::Done) return result;
  }
  return Result::Done;
}

Frames::Result Frames::skip() {
  std::array<std::byte, 1 << 16> dropped;
  while (received_ < in_bytes_) {
    const uint64_t left = in_bytes_ - received_;
    const Result result = receive_bytes(
        std::span(dropped).first(static_cast<size_t>(std::min<uint64_t>(dropped.size(), left))),
        received_);
    if (result != Result::Done) return result;
  }
  return Result::Done;
}

Frames::Result Frames::send(uint64_t epoch, std::span<const float> numbers) {
  Result result = complete();
  if (result != Result::Done) return result;
  out_ = {kFrameMagic, epoch, numbers.size_bytes()};
  out_bytes_ = sizeof out_ + numbers.size_bytes();
  sent_ = 0;
  result = send_bytes(std::as_bytes(std::span(&out_, 1)), sent_);
  return result == Result::Done ? send_bytes(std::as_bytes(numbers), sent_) : result;
}

Frames::Result Frames::receive(uint64_t epoch, std::span<float> numbers) {
  for (;;) {
    Result result = skip();
    if (result != Result::Done) return result;
    if (received_ == in_bytes_) received_ = in_bytes_ = 0;  // the next frame's head
    result = receive_bytes(
        std::as_writable_bytes(std::span(&in_, 1)).subspan(static_cast<size_t>(received_)),
        received_);
    if (result != Result::Done) return result;
    if (in_.magic != kFrameMagic || in_.epoch > epoch || in_.bytes > kMostBody) throw Garbled();
    in_bytes_ = sizeof in_ + in_.bytes;
    if (in_.epoch < epoch) continue;
    if (in_.bytes != numbers.size_bytes()) throw Garbled();
    return receive_bytes(std::as_writable_bytes(numbers), received_);
  }
}

NodeExchange::NodeExchange(std::shared_ptr<Links> links) : links_(std::move(links)) {
  if (links_->rank() > 0) {
    // A message of the first rank in the middle of a job says that another rank has failed.
    frames_.emplace_back(links_->data(0), links_->control(0).fd());
    return;
  }
  for (int rank = 1; rank < links_->ranks(); ++rank) {
    frames_.emplace_back(links_->data(rank), links_->wake_fd());
  }
}

void NodeExchange::fail_with(int rank, Frames::Result result) {
  if (links_->rank() > 0) fail(Exit::Failed, "the first rank has ended the exchange");
  if (result == Frames::Result::Ended || links_->gone()) links_->fail_gone(rank);
  fail(Exit::Failed, "another rank of the model has failed");
}

void NodeExchange::send(int rank, std::span<const float> numbers) {
  const Frames::Result result = with(rank).send(epoch_, numbers);
  if (result != Frames::Result::Done) fail_with(rank, result);
}

void NodeExchange::receive(int rank, std::span<float> numbers) {
  const Frames::Result result = with(rank).receive(epoch_, numbers);
  if (result != Frames::Result::Done) fail_with(rank, result);
}

void NodeExchange::all_reduce(int rank, std::span<float> x) {
  if (rank > 0) {
    send(0, x);
    receive(0, x);
    return;
  }
  part_.resize(std::max(part_.size(), x.size()));
  const std::span<float> part = std::span(part_).first(x.size());
  for (int other = 1; other < links_->ranks(); ++other) {
    receive(other, part);
    for (size_t i = 0; i < x.size(); ++i) x[i] += part[i];
  }
  for (int other = 1; other < links_->ranks(); ++other) send(other, x);
}

void NodeExchange::all_gather(int rank, std::span<float> columns, std::span<const int64_t> borders,
                              std::span<float> out) {
  if (rank > 0) {
    send(0, columns);
    receive(0, out);
    return;
  }
  put_columns(columns, borders, 0, out);
  const int64_t rows = std::ssize(out) / borders.back();
  for (int other = 1; other < links_->ranks(); ++other) {
    const size_t r = static_cast<size_t>(other);
    const size_t numbers = static_cast<size_t>(rows * (borders[r + 1] - borders[r]));
    part_.resize(std::max(part_.size(), numbers));
    const std::span<float> part = std::span(part_).first(numbers);
    receive(other, part);
    put_columns(part, borders, r, out);
  }
  for (int other = 1; other < links_->ranks(); ++other) send(other, out);
}

void NodeExchange::begin(uint64_t epoch) {
  epoch_ = epoch;
  if (epoch < ended_) fail(Exit::Failed, "another rank of the model has failed");
}

void NodeExchange::abort() noexcept {
  links_->wake();
  for (int rank = 1; rank < links_->ranks(); ++rank) {
    try {
      links_->send(rank, Kind::Abort, Writer().add(epoch()));
    } catch (const std::exception&) {  // it has ended, which the job will notice
    }
  }
}

void NodeExchange::reset() {
  ++epoch_;
  links_->calm();
}

}  // namespace skald::nodes
