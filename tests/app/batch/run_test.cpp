// A batch on several devices, here CPU executors, and on devices that fail.
#include "app/batch/run.h"

#include <climits>

#include "app/batch/model.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Devices = std::vector<std::unique_ptr<Executor>>;

struct Setup {
  Setup() {
    ModelFlags flags;
    flags.model = small_gguf();
    model = open_batch_model(flags, "");
    std::string requests;
    for (int i = 0; i < 40; ++i) {
      requests += "{\"prompt\":\"" + std::string(static_cast<size_t>(1 + 7 * i % 100), 'a') +
                  "\",\"max_tokens\":" + std::to_string(3 + i % 20) + "}\n";
    }
    in = folder.write("in.jsonl", requests).string();
  }

  std::unique_ptr<Executor> executor(int64_t cache_tokens = 0) const {
    RunOptions options;
    options.context = 128;
    options.sequences = 4;
    options.cache_tokens = cache_tokens;
    options.rows = 32;
    options.threads = 1;
    return cpu::make_executor(model.opened.model, options);
  }

  SchedulerCounts run(const std::string& out, const Devices& devices, int prepare_threads) const {
    JsonlReader reader(in);
    JobFlags flags;
    flags.output = out;
    flags.quiet = true;
    JobRun job(flags, reader, Json::object(), {});
    job.begin(Json::object());
    BatchPrepareOptions options;
    options.tokenizer = model.tokens.tokenizer.get();
    options.vocab = model.opened.model.config.vocab;
    options.context = 128;
    BatchPreparer preparer(options);
    const BatchRun batch{job,
                         preparer,
                         {options.tokenizer, "m", true},
                         {.sequences = 4, .swap = {1 << 30}},
                         prepare_threads};
    const SchedulerCounts work = run_batch(batch, devices);
    job.writer().finish();
    CHECK(job.counts().done == 40);
    return work;
  }

  TempFolder folder;
  BatchModel model;
  std::string in;
};

TEST_CASE("several devices share one input and give the output of a single one") {
  const Setup setup;
  const std::string one = (setup.folder.path() / "one").string();
  const std::string three = (setup.folder.path() / "three").string();
  Devices devices;
  devices.push_back(setup.executor());
  const SchedulerCounts alone = setup.run(one, devices, 1);
  devices.push_back(setup.executor());
  devices.push_back(setup.executor());
  const SchedulerCounts together = setup.run(three, devices, 3);
  CHECK(read_file(one) == read_file(three));
  CHECK(alone.new_tokens == together.new_tokens);
}

TEST_CASE("a cache that is too small for all texts changes none of them") {
  const Setup setup;
  const std::string expected = (setup.folder.path() / "expected").string();
  const std::string out = (setup.folder.path() / "out").string();
  Devices devices;
  devices.push_back(setup.executor());
  CHECK(setup.run(expected, devices, 1).preemptions == 0);
  devices.clear();
  for (int i = 0; i < 2; ++i) devices.push_back(setup.executor(192));
  const SchedulerCounts counts = setup.run(out, devices, 1);
  CHECK(counts.swapped <= counts.preemptions);
  CHECK((counts.swapped_tokens == 0 || counts.swapped > 0));
  CHECK(read_file(out) == read_file(expected));
}

// Throws in steps `first` to `last`.
class BrokenExecutor final : public WrappedExecutor {
 public:
  BrokenExecutor(std::unique_ptr<Executor> inner, Exit code, int first, int last)
      : WrappedExecutor(std::move(inner)), code_(code), first_(first), last_(last) {}

  int64_t run(Step step) override {
    if (++steps_ >= first_ && steps_ <= last_) fail(code_, "the device is broken");
    return inner_->run(step);
  }

 private:
  Exit code_;
  int first_, last_, steps_ = 0;
};

TEST_CASE("a device that fails ends the batch with its error, and the lines written are whole") {
  const Setup setup;
  const std::string out = (setup.folder.path() / "out").string();
  Devices devices;
  for (const int step : {5, 7}) {
    devices.push_back(
        std::make_unique<BrokenExecutor>(setup.executor(), Exit::Failed, step, INT_MAX));
  }
  const std::string error = error_text([&] { setup.run(out, devices, 2); }, Exit::Failed);
  CHECK(error == "the device is broken");
  const std::string text = read_file(out);
  CHECK((text.empty() || text.back() == '\n'));
}

TEST_CASE(
    "a device that runs out of memory takes fewer sequences at a time, and all lines are done") {
  const Setup setup;
  const std::string expected = (setup.folder.path() / "expected").string();
  const std::string out = (setup.folder.path() / "out").string();
  Devices devices;
  devices.push_back(setup.executor());
  setup.run(expected, devices, 1);
  devices.clear();
  devices.push_back(std::make_unique<BrokenExecutor>(setup.executor(), Exit::Memory, 9, 10));
  CHECK(setup.run(out, devices, 1).lowered == 2);
  CHECK(read_file(out) == read_file(expected));
}

}  // namespace
}  // namespace skald::test
