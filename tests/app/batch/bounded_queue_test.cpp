#include "app/batch/bounded_queue.h"

#include <memory>
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

TEST_CASE("what lies in an abandoned queue lives as long as the queue") {
  auto item = std::make_shared<int>(1);
  {
    BoundedQueue<std::shared_ptr<int>> queue(2);
    CHECK(queue.push(item));
    queue.abandon();
    CHECK(item.use_count() == 2);
    CHECK(!queue.pop());
    CHECK(!queue.try_pop());
    CHECK(!queue.push(item));
  }
  CHECK(item.use_count() == 1);
}

}  // namespace
}  // namespace skald::test
