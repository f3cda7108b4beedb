// main() for a fuzz target without libFuzzer: changes the files of a folder at random and
// feeds them to the target for some seconds, or until it has had so many inputs.
//   TARGET SEEDS SECONDS [SEED [INPUTS]]
//   TARGET FILE        feeds that file alone, to see a finding again
// The current input is kept in TARGET.input, for a look after a crash. An input that takes more
// than kMostSeconds is a finding too.
#include "tests/fuzz/driver.h"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

constexpr size_t kMostBytes = size_t{1} << 16;
// The processor may spend so much time on an input, which may wait for longer on a busy machine.
constexpr time_t kMostSeconds = 20;

extern "C" void stop_slow_input(int) {
  constexpr std::string_view kText = "an input takes more than 20 s\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(2);
  _exit(1);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// Numbers at which code for lengths and offsets tends to fail.
constexpr uint64_t kEdges[] = {0,          1,
                               0x7f,       0xff,
                               0x7fff,     0xffff,
                               0x7fffffff, 0x80000000,
                               0xffffffff, uint64_t{1} << 32,
                               INT64_MAX,  uint64_t{1} << 63,
                               UINT64_MAX, UINT64_MAX - 7,
                               16,         64};

void change_once(std::string& data, const std::vector<std::string>& seeds, Random& random) {
  const size_t at = below(random, data.size() + 1);
  const size_t length = below(random, std::min<size_t>(data.size() - at, 40) + 1);
  switch (below(random, 8)) {
    case 0:  // one bit
      if (at < data.size()) data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
      break;
    case 1:  // one byte
      if (at < data.size()) data[at] = static_cast<char>(random());
      break;
    case 2:
      data.erase(at, length);
      break;
    case 3:  // a part again, several times
      for (size_t times = 1 + below(random, below(random, 10) == 0 ? 300 : 4); times > 0; --times) {
        data.insert(at, data.substr(at, length));
      }
      break;
    case 4: {  // a part of another seed
      const std::string& other = seeds[below(random, seeds.size())];
      const size_t from = below(random, other.size() + 1);
      data.insert(at, other.substr(from, below(random, 200)));
      break;
    }
    case 5: {  // a number
      const uint64_t number = kEdges[below(random, std::size(kEdges))];
      const size_t bytes = size_t{1} << below(random, 4);
      for (size_t i = 0; i < bytes && at + i < data.size(); ++i) {
        data[at + i] = static_cast<char>(number >> (8 * i));
      }
      break;
    }
    case 6: {  // two parts change places
      const size_t to = below(random, data.size() + 1);
      const std::string part = data.substr(at, length);
      data.erase(at, length);
      data.insert(std::min(to, data.size()), part);
      break;
    }
    default:
      data.resize(at);
  }
}

// The file with the current input. Stays open: making it anew took longer than most inputs do.
class LastInput {
 public:
  explicit LastInput(fs::path path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;
  ~LastInput() {
    ::close(fd_);
    fs::remove(path_);
  }

  bool keep(const std::string& data) const {
    return ::ftruncate(fd_, static_cast<off_t>(data.size())) == 0 &&
           ::pwrite(fd_, data.data(), data.size(), 0) == static_cast<ssize_t>(data.size());
  }

 private:
  fs::path path_;
  int fd_;
};

int feed(const std::string& data) {
  // Memory of its own, so that a read past the end is one.
  const std::vector<uint8_t> bytes(data.begin(), data.end());
  const itimerval most = {{0, 0}, {kMostSeconds, 0}}, none = {};
  ::setitimer(ITIMER_PROF, &most, nullptr);
  const int result = LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  ::setitimer(ITIMER_PROF, &none, nullptr);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPROF, stop_slow_input);
  if (argc == 2) return feed(read_file(argv[1]));
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SEEDS SECONDS [SEED [INPUTS]] | %s FILE\n", argv[0], argv[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  for (const auto& entry : fs::recursive_directory_iterator(argv[1])) {
    if (entry.is_regular_file()) seeds.push_back(read_file(entry.path()).substr(0, kMostBytes));
  }
  if (seeds.empty()) seeds.emplace_back();
  std::sort(seeds.begin(), seeds.end());  // a folder lists its files in no fixed order
  for (const std::string& seed : seeds) feed(seed);

  const std::chrono::duration<double> time(std::atof(argv[2]));
  const uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const size_t most = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : SIZE_MAX;
  Random random(first);
  const LastInput last(std::string(argv[0]) + ".input");
  double slowest = 0;
  size_t runs = seeds.size();
  const auto start = std::chrono::steady_clock::now();
  for (auto now = start; now - start < time && runs < most; ++runs) {
    std::string data = seeds[below(random, seeds.size())];
    for (size_t changes = 1 + below(random, 6); changes > 0; --changes) {
      change_once(data, seeds, random);
    }
    data.resize(std::min(data.size(), kMostBytes));
    if (!last.keep(data)) {
      std::perror("the current input cannot be kept");
      return 2;
    }
    feed(data);
    const auto end = std::chrono::steady_clock::now();
    slowest = std::max(slowest, std::chrono::duration<double>(end - now).count());
    now = end;
  }
  std::printf("%s: %zu inputs from %zu seeds, none crashed; the slowest took %.2f s\n",
              fs::path(argv[0]).filename().c_str(), runs, seeds.size(), slowest);
  return 0;
}
