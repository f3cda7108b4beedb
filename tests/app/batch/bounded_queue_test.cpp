#include "app/batch/bounded_queue.h"

#include <thread>

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("a full queue makes writers wait, and abandon() releases them") {
  BoundedQueue<int> queue(2);
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) queue.push(i);
    queue.close();
  });
  for (int i = 0; i < 100; ++i) CHECK(queue.pop() == i);
  CHECK(!queue.pop());
  CHECK(!queue.push(1));
  writer.join();

  BoundedQueue<int> full(1);
  full.push(1);
  bool pushed = true;
  std::thread waiting([&] { pushed = full.push(2); });
  full.abandon();
  waiting.join();
  CHECK(!pushed);
  CHECK(!full.try_pop());
}

}  // namespace
}  // namespace skald::test
