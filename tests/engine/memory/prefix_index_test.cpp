#include "engine/memory/prefix_index.h"

#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

struct Prompt {
  Prompt(PagePool& pool, Tokens all) : tokens(std::move(all)), sequence(pool) {
    sequence.extend(static_cast<int64_t>(tokens.size()));
  }
  void insert(PrefixIndex& index) const {
    index.insert(tokens, page_hashes(tokens), sequence.length() / kPageTokens, sequence);
  }
  int64_t known(PrefixIndex& index, int64_t most = 100) const {
    return index.share(tokens, page_hashes(tokens), most).length();
  }

  Tokens tokens;
  Sequence sequence;
};

Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST_CASE("a prompt shares the whole pages of a common beginning") {
  PagePool pool(20);
  PrefixIndex index(pool);
  const Tokens beginning = random_tokens(130, 1);
  const Prompt first(pool, joined(beginning, random_tokens(80, 2)));
  first.insert(index);
  CHECK(index.pages() == 3);
  const Tokens hashed = joined(beginning, random_tokens(80, 3));
  const Sequence shared = index.share(hashed, page_hashes(hashed), 100);
  CHECK(shared.length() == 128);
  CHECK(shared.pages()[1] == first.sequence.pages()[1]);
  CHECK(first.known(index) == 192);
  CHECK(first.known(index, 1) == 64);
  Tokens other = beginning;
  other[0] ^= 1;
  const Sequence none = index.share(other, page_hashes(other), 100);
  CHECK(none.length() == 0);
}

TEST_CASE("a prompt shares no pages that another adapter has computed") {
  PagePool pool(20);
  PrefixIndex index(pool);
  const Tokens tokens = random_tokens(130, 1);
  for (const int adapter : {0, 2}) {
    Sequence sequence(pool, adapter);
    sequence.extend(130);
    index.insert(tokens, page_hashes(tokens, adapter), 2, sequence);
  }
  CHECK(index.pages() == 4);
  for (const int adapter : {0, 1, 2}) {
    const Sequence shared = index.share(tokens, page_hashes(tokens, adapter), 100, adapter);
    CHECK(shared.length() == (adapter == 1 ? 0 : 128));
    CHECK(shared.adapter() == adapter);
    CHECK(shared.fork().adapter() == adapter);
  }
  // Even if the hashes are the same.
  CHECK(index.share(tokens, page_hashes(tokens, 2), 100, 1).length() == 0);
}

TEST_CASE("pages in use are kept, and of the others the longest unused are released first") {
  PagePool pool(20);
  PrefixIndex index(pool);
  {
    const Tokens beginning = random_tokens(64, 1);
    const Prompt a(pool, joined(beginning, random_tokens(64, 2)));
    const Prompt b(pool, joined(beginning, random_tokens(64, 3)));
    a.insert(index);
    b.insert(index);
    CHECK(index.pages() == 3);
    CHECK(index.idle_pages() == 0);
    CHECK(!index.release_one());
  }
  CHECK(index.idle_pages() == 3);
  CHECK(pool.free_pages() == 17);
  const Tokens beginning = random_tokens(64, 1);
  const Tokens a = joined(beginning, random_tokens(64, 2));
  {
    const Sequence used = index.share(a, page_hashes(a), 100);
    CHECK(used.length() == 128);
    CHECK(index.idle_pages() == 1);
    CHECK(index.release_one());  // releases the page that only b used
    CHECK(!index.release_one());
  }
  CHECK(index.release_one());
  CHECK(index.release_one());
  CHECK(!index.release_one());
  CHECK(pool.free_pages() == 20);
}

TEST_CASE("clear() frees all pages") {
  PagePool pool(4);
  PrefixIndex index(pool);
  const Prompt a(pool, random_tokens(128, 1));
  a.insert(index);
  index.clear();
  CHECK(a.known(index) == 0);
  CHECK(!pool.shared(a.sequence.pages()[0]));
}

TEST_CASE("a sequence that starts with shared pages never writes to them") {
  PagePool pool(4);
  Sequence owner(pool);
  owner.extend(64);
  Sequence sharing(pool, owner.pages());
  CHECK(sharing.length() == 64);
  CHECK(pool.shared(owner.pages()[0]));
  CHECK(!sharing.extend(1).page);
  CHECK(sharing.pages()[0] == owner.pages()[0]);
  CHECK(pool.free_pages() == 2);
}

}  // namespace
TEST_CASE("an index for sequences with a recurrent state shares nothing") {
  PagePool pool(8, 4);
  PrefixIndex index(pool);
  const std::vector<int32_t> tokens(128, 7);
  const std::vector<uint64_t> hashes = page_hashes(tokens);
  Sequence s(pool);
  s.extend(128);
  index.insert(tokens, hashes, 2, s);
  CHECK(index.pages() == 0);
  CHECK(index.share(tokens, hashes, 2).length() == 0);
}

}  // namespace skald::test
