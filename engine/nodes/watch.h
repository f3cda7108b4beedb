// Signs of life between the processes of a group: each sends a byte every now and then, from a
// thread of its own, also while it computes. A process that is silent for too long, or whose
// connection ends without a farewell, is lost.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/nodes/socket.h"

namespace skald::nodes {

class Watch {
 public:
  // `lost` is called at most once, on the watching thread: which of `sockets`, and why. The sockets
  // outlive the Watch.
  Watch(std::vector<const Socket*> sockets, double timeout_seconds,
        std::function<void(size_t, const std::string&)> lost);
  ~Watch();  // sends the farewell

 private:
  void work();
  bool hear(size_t peer);  // false: it is lost

  struct Peer {
    const Socket* socket;
    Clock::time_point heard;
    bool left = false;  // it said farewell
  };

  std::vector<Peer> peers_;
  const std::chrono::duration<double> timeout_;
  std::function<void(size_t, const std::string&)> lost_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace skald::nodes
