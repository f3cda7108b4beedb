// Short convolutions on the GPU: however a prompt is cut, and whatever other sequences a step has.
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/temp_folder.h"

namespace skald::test {

TEST_CASE("a short convolution sees the tokens of its own sequence alone") {
  const std::filesystem::path folder = find_golden("lfm2");
  if (folder.empty()) return;
  TempFolder temp;
  temp.write("config.json", read_file(folder / "config.json"));
  temp.write("model.safetensors", as_floats(read_file(folder / "model.safetensors")));
  const Model model = open_model(temp.path()).model;
  RunOptions options;
  options.sequences = 3;
  const auto executor = cuda::make_executor(model, options, 0, switches());
  const auto ids = read_json(folder / "golden.json")["input_ids"].get<std::vector<int32_t>>();
  const std::vector<int32_t> reversed(ids.rbegin(), ids.rend());
  const std::vector<const std::vector<int32_t>*> texts = {&ids, &reversed, &ids};
  std::vector<std::map<int64_t, std::vector<float>>> alone;
  for (const auto* text : texts) alone.push_back(run_text(*executor, *text, 512));

  // The sequences advance by unlike numbers of rows; the last steps have one row of each.
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < texts.size(); ++i) sequences.push_back(executor->new_sequence());
  std::vector<size_t> at(texts.size());
  double worst = 0;
  for (int step = 0; step < 12; ++step) {
    std::vector<SeqRows> rows;
    for (size_t i = 0; i < texts.size(); ++i) {
      const size_t count = step >= 6 ? 1 : (static_cast<size_t>(step) + i * 2) % 4;
      if (count == 0 || at[i] + count > texts[i]->size()) continue;
      rows.push_back({&sequences[i], std::span(*texts[i]).subspan(at[i], count), Want::LastRow});
      at[i] += count;
    }
    executor->run(rows);
    int64_t wanted = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const bool has = std::any_of(rows.begin(), rows.end(), [&](const SeqRows& each) {
        return each.sequence == &sequences[i];
      });
      if (!has) continue;
      const auto found = executor->logits(wanted++);
      const std::vector<float>& expected = alone[i].at(static_cast<int64_t>(at[i]) - 1);
      for (size_t k = 0; k < expected.size(); ++k) {
        worst = std::max(worst, std::abs(double{found[k]} - expected[k]));
      }
    }
  }
  std::printf("lfm2 f32, three sequences: largest difference %.1e\n", worst);
  CHECK(worst < 1e-4);
}

}  // namespace skald::test
