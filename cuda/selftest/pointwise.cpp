// Self-test of the small kernels between products and attention.
#include "cuda/kernels/pointwise/pointwise.h"

#include <algorithm>

#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::Pointwise;

// Rows of queries, keys and values: three copies of the input.
std::vector<std::byte> queries_keys_values(const selftest::PointwiseCase& c,
                                           const selftest::PointwiseData& data) {
  const std::vector<std::byte> in = selftest::encode(c.type, data.in);
  const size_t row_bytes = in.size() / static_cast<size_t>(c.rows);
  std::vector<std::byte> rows;
  for (auto row = in.begin(); row != in.end(); row += static_cast<int64_t>(row_bytes)) {
    for (int i = 0; i < 3; ++i) rows.insert(rows.end(), row, row + static_cast<int64_t>(row_bytes));
  }
  return rows;
}

// Keeps only the queries of queries_keys_values(). Returns what is wrong with the keys and values,
// or "".
std::string take_queries(const selftest::PointwiseCase& c, const selftest::PointwiseData& data,
                         std::vector<std::byte>& rows) {
  const std::vector<std::byte> before = queries_keys_values(c, data);
  const size_t part = rows.size() / static_cast<size_t>(3 * c.rows);
  std::vector<std::byte> queries;
  std::string problem;
  for (size_t at = 0; at < rows.size(); at += 3 * part) {
    const auto of = [&](const std::vector<std::byte>& all, size_t i) {
      return std::span(all).subspan(at + i * part, part);
    };
    const auto q = of(rows, 0), k = of(rows, 1), v = of(rows, 2), v_before = of(before, 2);
    if (!std::equal(q.begin(), q.end(), k.begin())) problem = "equal queries and keys differ after";
    if (!std::equal(v.begin(), v.end(), v_before.begin())) problem = "it changed the values";
    queries.insert(queries.end(), q.begin(), q.end());
  }
  rows = std::move(queries);
  return problem;
}

// A buffer that a kernel changes in place holds its input at first.
TestBuffer output(const selftest::PointwiseCase& c, const selftest::PointwiseData& data,
                  DType out_type, TestBuffers& buffers) {
  if (c.op == Pointwise::AddBias || c.op == Pointwise::Cap || c.op == Pointwise::RowGate ||
      c.op == Pointwise::GatedPart) {
    return buffers.holding(c.type, data.in);
  }
  if (c.op == Pointwise::QkNorm) return buffers.holding(queries_keys_values(c, data));
  if (!data.residual.empty()) return buffers.holding(data.residual);
  return buffers.poisoned(c.rows * c.cols * info(out_type).block_bytes);
}

}  // namespace

void test_pointwise(const selftest::PointwiseCase& c, const selftest::PointwiseData& data,
                    const TestGpu& test, TestBuffers& buffers, selftest::Report& report) {
  if (c.op == Pointwise::ScaledAdd) return;  // products do it
  buffers.reset();
  const bool floats = c.op == Pointwise::Embed || c.op == Pointwise::ScaledEmbed ||
                      c.op == Pointwise::Gather || c.op == Pointwise::PostNorm;
  const DType out_type = floats ? DType::F32 : c.type;
  const TestBuffer out = output(c, data, out_type, buffers);
  const bool from_floats = c.op == Pointwise::Norm || c.op == Pointwise::PostNorm ||
                           c.op == Pointwise::LayerNorm || c.op == Pointwise::BiasedLayerNorm;
  const TestBuffer in = buffers.holding(from_floats ? DType::F32 : c.type, data.in);
  const auto* weight = reinterpret_cast<const float*>(buffers.holding(data.weight).data);
  const auto* bias = reinterpret_cast<const float*>(buffers.holding(data.bias).data);
  const auto* picked = reinterpret_cast<const int32_t*>(buffers.holding(data.picked).data);
  const auto* in_floats = reinterpret_cast<const float*>(in.data);
  auto* out_floats = reinterpret_cast<float*>(out.data);
  const char* kernel = "";
  TestBuffer copy;
  switch (c.op) {
    case Pointwise::Embed:
    case Pointwise::ScaledEmbed:
      kernel = "embed";
      launch_embed({c.type, in.data, picked, out_floats, c.rows, c.cols,
                    c.op == Pointwise::Embed ? 1 : selftest::kScale},
                   test.stream);
      break;
    case Pointwise::Norm:
      kernel = "rms_norm";
      launch_rms_norm({c.type, in_floats, weight, out.data, c.rows, c.cols, selftest::kNormEps},
                      test.stream);
      break;
    case Pointwise::LayerNorm:
    case Pointwise::BiasedLayerNorm:
      kernel = "layer_norm";
      launch_norm({NormKind::Layer, c.type, in_floats, weight,
                   c.op == Pointwise::BiasedLayerNorm ? bias : nullptr, out.data, c.rows, c.cols,
                   selftest::kNormEps},
                  test.stream);
      break;
    case Pointwise::Gate:
      kernel = "gate";
      launch_gate({c.type, in.data, true, weight, out.data, c.rows, c.cols, data.activation},
                  test.stream);
      break;
    case Pointwise::AddBias:
      kernel = "add_bias";
      launch_add_bias({c.type, out.data, weight, c.rows, c.cols}, test.stream);
      break;
    case Pointwise::RowGate:
      kernel = "row_gate";
      launch_row_gate({c.type, out.data, in.data, weight, c.rows, c.cols, c.cols}, test.stream);
      break;
    case Pointwise::Gather:
      kernel = "gather";
      launch_gather({in_floats, picked, out_floats, c.rows, c.cols}, test.stream);
      break;
    case Pointwise::Cap:
      kernel = "cap_logits";
      launch_cap({out_floats, c.rows * c.cols, selftest::kScale, selftest::kSoftcap}, test.stream);
      break;
    case Pointwise::PostNorm:
      kernel = "post_norm";
      copy = buffers.poisoned(c.rows * c.cols * info(c.type).block_bytes);
      launch_post_norm({c.type, in_floats, weight, out_floats, copy.data, c.rows, c.cols,
                        selftest::kNormEps, selftest::kScale, selftest::kKeep},
                       test.stream);
      break;
    case Pointwise::QkNorm:
      kernel = "qk_norm";
      launch_qk_norm({c.type, out.data, weight, weight, c.cols, c.cols, 3 * c.cols, c.rows,
                      selftest::kNormEps},
                     test.stream);
      break;
    case Pointwise::SumOfNorms:
      kernel = "sum_of_norms";
      launch_sum_of_norms(
          {in_floats, in_floats + c.rows * c.cols, weight, weight + c.cols, weight + 2 * c.cols,
           out_floats, c.rows, c.cols, selftest::kNormEps, selftest::kScale, selftest::kKeep},
          test.stream);
      break;
    case Pointwise::GatedPart:
      kernel = "gated_part";
      launch_gated_part(
          {c.type, out.data, weight + c.cols / 2, c.rows, c.cols, 2 * c.cols, data.activation},
          test.stream);
      break;
    case Pointwise::CopyPart:
      kernel = "copy_part";
      launch_copy_part({DType::F32,
                        c.type,
                        weight + c.cols / 2,
                        out.data,
                        c.rows,
                        1,
                        c.cols,
                        {0, 2 * c.cols},
                        {0, c.cols}},
                       test.stream);
      break;
    case Pointwise::ScaledAdd:
      break;
  }
  SKALD_CUDA(cudaStreamSynchronize(test.stream));
  std::vector<std::byte> bytes = buffers.bytes_of(out);
  std::string problem;
  if (c.op == Pointwise::QkNorm) problem = take_queries(c, data, bytes);
  const std::vector<float> result = selftest::decode(out_type, bytes);
  if (c.op == Pointwise::PostNorm) {
    if (buffers.bytes_of(copy) != selftest::encode(c.type, result)) problem = "its copy differs";
    if (!buffers.intact(copy)) problem = "it wrote beyond its copy";
  }
  if (!buffers.intact(out)) problem = "it wrote beyond its output";
  report.add(selftest::Sort::Pointwise, c,
             {kernel, c.type, data.expected.error(result), data.expected.bound, true, problem});
}

}  // namespace skald::cuda
