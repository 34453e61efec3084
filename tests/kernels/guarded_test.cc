// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The operations on a device whose memory is closed but for the operands that they name: one that
// touches anything else, or whose body keeps a reference into its caller, ends in SIGSEGV.

#include "kernels/fixture.h"
#include "quadrille/kernels/adamw.h"
#include "quadrille/kernels/attention.h"
#include "quadrille/kernels/embedding.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/layer_norm.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/reduction.h"
#include "support/guarded_device.h"

namespace quadrille::test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSequence = 33;
constexpr std::int64_t kRows = kBatch * kSequence;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kWidth = 24;
constexpr std::int64_t kVocab = 19;

class Guarded : public KernelTest {
 protected:
  /// Runs `operations` on both devices from the same inputs and returns what each left in result.
  template <class Operations>
  void expect_equal_on_both(const Operations& operations) {
    const std::vector<float> open = run_on(make_host_device(), operations);
    const std::vector<float> guarded = run_on(testing::make_guarded_device(), operations);
    EXPECT_TRUE(same_bits(open, guarded));
  }

 private:
  template <class Operations>
  std::vector<float> run_on(std::unique_ptr<Device> device, const Operations& operations) {
    generator_.seed(seed_);
    stream_.reset();
    device_ = std::move(device);
    stream_ = device_->make_stream();
    return operations();
  }
};

TEST_F(Guarded, ABlocksForwardAndBackwardTouchOnlyTheirOperands) {
  expect_equal_on_both([&] {
    const auto x = random({kRows, kWidth});
    const auto weight = random({kWidth});
    const auto y = empty({kRows, kWidth});
    const auto mean = empty({kRows});
    const auto rstd = empty({kRows});
    kernels::layer_norm_forward(
        *stream_, {.x = *x, .weight = *weight, .bias = {}, .y = *y, .mean = *mean, .rstd = *rstd});
    const auto projection = random({kWidth, 3 * kWidth});
    const auto bias = random({3 * kWidth});
    const auto qkv = empty({kRows, 3 * kWidth});
    kernels::matmul(*stream_, {.a = *y, .b = *projection, .c = *qkv, .bias = *bias});
    const TensorView qkv3 = qkv->view().reshape({kBatch, kSequence, 3 * kWidth});
    const auto out = empty({kBatch, kSequence, kWidth});
    const auto lse = empty({kBatch, kHeads, kSequence});
    kernels::attention_forward(*stream_,
                               {.input = kernels::packed_attention_input(qkv3, kHeads, kHeads),
                                .out = *out,
                                .log_sum_exp = *lse});
    const kernels::DropoutMask mask{.stream = RandomStream(1, RandomPurpose::kDropout, 2),
                                    .probability = 0.25F};
    kernels::dropout_add(*stream_, mask, *out, *x, *x);
    kernels::gelu_forward(*stream_, *x, *x);

    const auto dqkv = empty({kBatch, kSequence, 3 * kWidth});
    const auto delta = empty({kBatch, kHeads, kSequence});
    const auto dout = random({kBatch, kSequence, kWidth});
    kernels::attention_backward(
        *stream_, {.input = kernels::packed_attention_input(qkv3, kHeads, kHeads),
                   .out = *out,
                   .log_sum_exp = *lse,
                   .dout = *dout,
                   .delta = *delta,
                   .gradient = kernels::packed_attention_input(*dqkv, kHeads, kHeads)});
    kernels::add_column_sums(*stream_, dqkv->view().reshape({kRows, 3 * kWidth}), *bias);
    const auto dweight = empty({kWidth});
    kernels::layer_norm_backward(*stream_, {.dy = dout->view().reshape({kRows, kWidth}),
                                            .x = *x,
                                            .weight = *weight,
                                            .mean = *mean,
                                            .rstd = *rstd,
                                            .dx = *y,
                                            .accumulate_dx = true,
                                            .weight_gradient = *dweight,
                                            .bias_gradient = {}});
    const auto moments = empty({kRows, kWidth});
    const auto squares = empty({kRows, kWidth});
    kernels::adamw(*stream_, {.parameter = *x,
                              .gradient = *y,
                              .first_moment = *moments,
                              .second_moment = *squares,
                              .learning_rate = 0.1F});
    kernels::add(*stream_, *y, *x);
    return x->get<float>();
  });
}

TEST_F(Guarded, EmbeddingAndHeadTouchOnlyTheirOperands) {
  expect_equal_on_both([&] {
    const auto tokens = random_ids({kBatch, kSequence}, 0, kVocab - 1);
    const auto table = random({kVocab, kWidth});
    const auto positions = random({kSequence, kWidth});
    const auto x = empty({kBatch, kSequence, kWidth});
    kernels::embedding_forward(
        *stream_,
        {.tokens = *tokens, .token_table = *table, .position_table = *positions, .out = *x});
    const auto loss = empty({1}, DType::kF64);
    const auto workspace = empty({kernels::head_loss_chunk(kRows, kVocab), kVocab});
    const auto dx = empty({kRows, kWidth});
    const auto gradient = empty({kVocab, kWidth});
    kernels::head_loss(*stream_, {.x = x->view().reshape({kRows, kWidth}),
                                  .weight = *table,
                                  .targets = tokens->view().flat(),
                                  .loss_sum = *loss,
                                  .workspace = *workspace,
                                  .dx = *dx,
                                  .weight_gradient = *gradient});
    const auto position_gradient = empty({kSequence, kWidth});
    kernels::embedding_backward(*stream_, {.tokens = *tokens,
                                           .dout = dx->view().reshape({kBatch, kSequence, kWidth}),
                                           .token_gradient = *gradient,
                                           .position_gradient = *position_gradient});
    kernels::add_sum_of_squares(*stream_, *gradient, *loss);
    kernels::add_count_of_nonfinite(*stream_, *gradient, *loss);
    auto result = gradient->get<float>();
    result.push_back(static_cast<float>(loss->get<double>()[0]));
    return result;
  });
}

}  // namespace
}  // namespace quadrille::test
