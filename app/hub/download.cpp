#include "app/hub/download.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "app/files/signals.h"
#include "app/hub/blob_writer.h"
#include "app/hub/file_lock.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

using std::chrono::milliseconds;

// A file may be this many parts ahead of what is written: they wait in memory.
constexpr int64_t kPartsAhead = 16;
constexpr size_t kDelivered = 1 << 20;  // bytes that go to the writer at once

bool has_blob(const CachedRepository& cached, const RemoteFile& file) {
  std::error_code error;
  return std::filesystem::exists(cached.blob(file.etag), error);
}

struct File {
  enum class State { Untouched, Opening, Open, Done };

  const RemoteFile* remote = nullptr;
  State state = State::Untouched;
  std::unique_ptr<BlobWriter> writer;  // while Open; used by the thread that set `writes`
  bool writes = false;
  std::vector<std::pair<int64_t, std::string>> arrived;  // offset and bytes, for the writer
  int64_t written = 0;                                   // what the writer had at last
  int64_t here = 0;        // bytes that are written or wait for bytes before them
  int64_t asked = 0;       // the parts before this byte have been given out
  int64_t round = 0;       // counts how often the file began again: parts of older rounds are void
  int in_work = 0;         // parts that threads have
  bool no_ranges = false;  // the server sends whole files alone
  std::string place;       // the address that the hub redirected to; empty: ask the hub
};

struct Part {
  File* file = nullptr;
  int64_t next = 0, end = 0;  // the bytes that are still to come
  int64_t round = 0;
};

// The shared state of the threads, guarded by `mutex_`.
class Work {
 public:
  explicit Work(const Download& download) : download_(download) {
    for (const RemoteFile& file : download.files) {
      File& one = files_.emplace_back();
      one.remote = &file;
      if (has_blob(download.cached, file)) one.state = File::State::Done;
    }
  }

  void run() {
    if (all_done()) return;
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(download_.settings.connections));
    try {
      for (int i = 0; i < download_.settings.connections; ++i) {
        threads.emplace_back([this] { work(); });
      }
    } catch (...) {  // where a thread cannot be started, those before it end
      end_with_problem();
    }
    watch();
    for (std::thread& thread : threads) thread.join();
    const bool interrupted = download_.stop();
    if (problem_) std::rethrow_exception(problem_);
    if (interrupted && !all_done()) {
      fail_interrupted("; what has arrived is kept, and the same command goes on from there");
    }
  }

 private:
  // Shows the progress until all files are done, or the threads are to stop.
  void watch() {
    std::unique_lock guard(mutex_);
    while (!all_done() && !stopping_) {
      changed_.wait_for(guard, milliseconds(100));
      const DownloadState state = this->state();
      guard.unlock();
      const bool stop = download_.stop();
      if (download_.show) download_.show(state);
      guard.lock();
      if (stop) stopping_ = true;
    }
    stopping_ = true;
    changed_.notify_all();
  }

  DownloadState state() const {
    DownloadState state;
    state.fetched = fetched_;
    state.pause = pause_;
    for (const File& file : files_) {
      if (file.state == File::State::Done) state.bytes += file.remote->size;
      if (file.state == File::State::Open) state.bytes += file.here;
      const bool open = file.state == File::State::Open;
      if (state.file.empty() && (open || file.state == File::State::Opening)) {
        state.file = file.remote->name;
        state.waits = !open && waits_;
        state.checks = !open && !waits_;
      }
    }
    return state;
  }

  bool all_done() const {
    return std::all_of(files_.begin(), files_.end(),
                       [](const File& file) { return file.state == File::State::Done; });
  }

  void work() {
    try {
      HttpConnection connection(download_.settings, [this] { return stopping_.load(); });
      while (std::optional<Part> part = next_part()) {
        fetch(connection, *part);
        const std::lock_guard guard(mutex_);
        --part->file->in_work;
        changed_.notify_all();
      }
    } catch (const HttpFailure&) {
      // Stopped: watch() or another thread knows why.
    } catch (...) {
      end_with_problem();
    }
  }

  void end_with_problem() {
    const std::lock_guard guard(mutex_);
    if (!problem_) problem_ = std::current_exception();
    stopping_ = true;
    changed_.notify_all();
  }

  // The next part to fetch. Waits while the files in work are far enough ahead. Empty: no more work
  // for this thread.
  std::optional<Part> next_part() {
    std::unique_lock guard(mutex_);
    while (!stopping_ && !all_done()) {
      for (File& file : files_) {
        if (auto part = part_of(file)) return part;
      }
      File* const file = next_untouched();
      if (file) {
        open(*file, guard);
      } else {
        changed_.wait(guard);
      }
    }
    return {};
  }

  // Parts that come before their turn are lost if the download is stopped, so the first ones are
  // small.
  int64_t part_bytes(const File& file) const {
    constexpr int64_t kFewest = 1 << 20;
    return std::min(download_.settings.part_bytes, std::max(kFewest, file.asked / 16));
  }

  std::optional<Part> part_of(File& file) const {
    const int64_t size = file.remote->size, bytes = part_bytes(file);
    if (file.state != File::State::Open || file.asked >= size) return {};
    if (file.no_ranges && file.in_work > 0) return {};
    if (file.asked - file.written >= kPartsAhead * bytes) return {};
    const int64_t end = file.no_ranges ? size : std::min(file.asked + bytes, size);
    const Part part{&file, file.asked, end, file.round};
    file.asked = end;
    ++file.in_work;
    return part;
  }

  // One thread at a time opens a file, since it may have to wait for another process.
  File* next_untouched() {
    File* first = nullptr;
    for (File& file : files_) {
      if (file.state == File::State::Opening) return nullptr;
      if (!first && file.state == File::State::Untouched) first = &file;
    }
    return first;
  }

  void open(File& file, std::unique_lock<std::mutex>& guard) {
    file.state = File::State::Opening;
    std::optional<FileLock> lock;
    while (!stopping_) {
      guard.unlock();
      lock = FileLock::try_take(download_.cached.lock(file.remote->etag));
      guard.lock();
      if (lock) break;
      waits_ = true;
      changed_.wait_for(guard, milliseconds(100));
    }
    waits_ = false;
    if (!lock) return;
    if (has_blob(download_.cached, *file.remote)) {  // the other process has finished it
      file.state = File::State::Done;
    } else {
      guard.unlock();  // the hash of the bytes that are there takes a second for each 300 MB
      file.writer = std::make_unique<BlobWriter>(download_.cached, *file.remote, *std::move(lock),
                                                 [this] { return stopping_.load(); });
      guard.lock();
      file.asked = file.here = file.written = file.writer->written();
      file.state = File::State::Open;
      // An empty file, or one that only lacked its name, has no part to fetch.
      if (file.writer->has_all()) write(file, guard);
    }
    changed_.notify_all();
  }

  // Takes bytes that came for a part. False: nobody wants more of them.
  bool deliver(Part& part, std::string bytes) {
    std::unique_lock guard(mutex_);
    File& file = *part.file;
    if (file.round != part.round || file.state != File::State::Open) return false;
    const int64_t offset = std::exchange(part.next, part.next + std::ssize(bytes));
    file.here += std::ssize(bytes);
    file.arrived.emplace_back(offset, std::move(bytes));
    if (!file.writes) write(file, guard);
    changed_.notify_all();
    return file.round == part.round && !stopping_;
  }

  // Gives the writer what has arrived, and finishes the file when it has all. The disk and the hash
  // do not hold up the other threads.
  void write(File& file, std::unique_lock<std::mutex>& guard) {
    file.writes = true;
    do {
      auto arrived = std::exchange(file.arrived, {});
      guard.unlock();
      for (auto& [offset, bytes] : arrived) file.writer->put(offset, std::move(bytes));
      const bool all = file.writer->has_all();
      const bool good = all && file.writer->finish() == BlobWriter::Check::Good;
      guard.lock();
      file.written = file.writer->written();
      if (good) file.state = File::State::Done;
      if (all && !good) begin_again(file);
    } while (file.state == File::State::Open && !file.arrived.empty());
    file.writes = false;
    if (file.state == File::State::Done) file.writer.reset();  // gives the lock back
  }

  void begin_again(File& file) {
    file.asked = file.here = file.written;
    file.arrived.clear();
    ++file.round;
  }

  // Fetches a part. Goes on behind what has arrived when the connection is cut.
  void fetch(HttpConnection& connection, Part& part) {
    Patience patience(
        download_.settings, [this] { return stopping_.load(); },
        [this](int64_t seconds) { pause_ = seconds; });
    const std::string what = printable(part.file->remote->name);
    bool wanted = true;
    while (wanted && part.next < part.end) {
      try {
        wanted = fetch_some(connection, part, patience, what);
      } catch (const HttpFailure& failure) {
        patience.after_failure(failure, what, false);
      }
    }
  }

  // One request. False: the part is not wanted any more.
  bool fetch_some(HttpConnection& connection, Part& part, Patience& patience,
                  const std::string& what) {
    const RemoteFile& remote = *part.file->remote;
    HttpRequest request;
    {
      const std::lock_guard guard(mutex_);
      request.url = part.file->place;
    }
    const bool direct = !request.url.empty();
    if (!direct) {
      request.url =
          file_url(download_.settings, download_.repository, download_.commit, remote.name);
      request.token = download_.settings.token;
    }
    request.first = part.next;
    request.last = part.end - 1;
    Arrival arrival{part, patience, {}, {}, true};
    const auto finally_deliver = [&] {
      if (arrival.bytes.empty() || !arrival.wanted) return;
      arrival.wanted = deliver(part, std::move(arrival.bytes));
    };
    HttpReply reply;
    try {
      reply = connection.get(request, [&](const HttpReply& from, std::string_view more) {
        if (!arrival.skip && !direct) check_version(remote, from);
        return take(arrival, from, more);
      });
    } catch (const HttpFailure&) {
      finally_deliver();
      throw;
    }
    finally_deliver();
    if (!arrival.wanted) return false;
    if (reply.status == 200 || reply.status == 206) {
      if (!direct) keep_place(part, reply);
      if (part.next >= part.end) return true;
      throw HttpFailure(HttpFailure::Kind::Cut, "the file ended before its size");
    }
    if (direct) {  // a redirect's address holds for some minutes only
      const std::lock_guard guard(mutex_);
      part.file->place.clear();
      if (!may_pass(reply.status)) return true;
    }
    if (reply.status == 416) throw ListingChanged(remote.name);
    if (!may_pass(reply.status)) {
      fail_with_status(reply, download_.settings, download_.reference);
    }
    patience.after_status(reply, what);
    return true;
  }

  // The body of one reply, on its way to the writer.
  struct Arrival {
    Part& part;
    Patience& patience;
    std::string bytes;            // that were not delivered yet
    std::optional<int64_t> skip;  // bytes before the part, where the server ignores ranges
    bool wanted;
  };

  bool take(Arrival& arrival, const HttpReply& from, std::string_view more) {
    Part& part = arrival.part;
    if (!arrival.skip) {
      arrival.skip = from.status == 200 ? part.next : 0;
      if (from.status == 200 && !fits_whole_reply(part)) return arrival.wanted = false;
    }
    const size_t skipped = std::min(static_cast<size_t>(*arrival.skip), more.size());
    *arrival.skip -= static_cast<int64_t>(skipped);
    more.remove_prefix(skipped);
    const auto room = static_cast<size_t>(part.end - part.next) - arrival.bytes.size();
    more = more.substr(0, room);
    arrival.bytes += more;
    arrival.patience.made_progress();
    fetched_ += std::ssize(more);
    const bool all = more.size() == room;
    if (all || arrival.bytes.size() >= kDelivered) {
      arrival.wanted = deliver(part, std::exchange(arrival.bytes, {}));
    }
    return arrival.wanted && !all;
  }

  // A reply with the whole file came where a range was asked for. Fine if the part goes to the end
  // of the file; otherwise the file is fetched again by one thread, which asks for all of the rest.
  bool fits_whole_reply(const Part& part) {
    const std::lock_guard guard(mutex_);
    File& file = *part.file;
    if (part.end == file.remote->size && file.in_work == 1) return true;
    if (file.round == part.round) {
      file.no_ranges = true;
      begin_again(file);
    }
    return false;
  }

  static void check_version(const RemoteFile& remote, const HttpReply& reply) {
    const std::string etag = linked_etag(reply);
    if (etag.size() == remote.etag.size() && etag != remote.etag) throw ListingChanged(remote.name);
  }

  void keep_place(const Part& part, const HttpReply& reply) {
    if (!reply.redirected || host_of(reply.url) == host_of(download_.settings.endpoint)) return;
    const std::lock_guard guard(mutex_);
    part.file->place = reply.url;
  }

  const Download& download_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<File> files_;
  bool waits_ = false;  // the file that is opened belongs to another process
  std::atomic<int64_t> fetched_ = 0;
  std::atomic<int64_t> pause_ = 0;  // seconds, of the thread that paused last
  std::atomic<bool> stopping_ = false;
  std::exception_ptr problem_;
};

}  // namespace

void download(const Download& download) { Work(download).run(); }

int64_t missing_bytes(const CachedRepository& cached, std::span<const RemoteFile> files) {
  int64_t bytes = 0;
  for (const RemoteFile& file : files) {
    if (has_blob(cached, file)) continue;
    std::error_code error;
    const auto there = std::filesystem::file_size(cached.incomplete(file.etag), error);
    bytes += std::max<int64_t>(0, file.size - (error ? 0 : static_cast<int64_t>(there)));
  }
  return bytes;
}

}  // namespace skald
