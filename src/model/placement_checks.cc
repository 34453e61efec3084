// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/placement_checks.h"

#include <string>
#include <utility>
#include <vector>

#include "model/parameter_names.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

/// What the tensor axis has of an activation [rows, features].
struct Flow {
  AxisPlacement placement;       ///< Sharded on 0 (rows) or 1 (features).
  std::vector<Extent> features;  ///< This rank's, where they are sharded.
};

class PlacementChecker {
 public:
  PlacementChecker(const ModelSpec& spec, const TensorShare& share,
                   std::span<const Parameter> parameters)
      : spec_(spec), share_(share), parameters_(parameters) {}

  Result<void> run() {
    QD_ASSIGN_OR_RETURN(Flow words, look_up(token_embedding_name(spec_)));
    if (has_learned_positions(spec_)) {
      // One rank adds them to the sum, and each sees the gradients of all rows.
      QD_RETURN_IF_ERROR(expect("wpe.weight", AxisPlacement::replicated(), "added once"));
      QD_RETURN_IF_ERROR(expect_gradient("wpe.weight", AxisPlacement::replicated()));
    }
    Flow residual = summed(words);
    for (std::int64_t layer = 1; layer <= spec_.layers; ++layer) {
      QD_ASSIGN_OR_RETURN(residual, attention(layer, residual));
      QD_ASSIGN_OR_RETURN(residual, mlp(layer, residual));
    }
    QD_ASSIGN_OR_RETURN(const Flow normed, norm(final_norm_name(spec_), residual));
    static_cast<void>(normed);
    return expect(head_name(spec_), AxisPlacement::sharded(0), "multiplied word by word");
  }

 private:
  Result<const Parameter*> find(const std::string& name) const {
    for (const Parameter& parameter : parameters_) {
      if (parameter.shape.name == name) return &parameter;
    }
    return fail(Code::kInternal, "no parameter " + name);
  }

  static Result<void> mismatch(const std::string& name, AxisPlacement is, const std::string& why) {
    return fail(Code::kInvalid, name + " is " + is.to_text() + " on the tensor axis, but " + why);
  }

  Result<void> expect(const std::string& name, AxisPlacement wanted, const std::string& use) const {
    QD_ASSIGN_OR_RETURN(const Parameter* parameter, find(name));
    const AxisPlacement is = parameter->shape.placement.on(Axis::kTensor);
    if (is == wanted) return {};
    return mismatch(name, is, "it is " + use + ", which needs " + wanted.to_text());
  }

  Result<void> expect_gradient(const std::string& name, AxisPlacement wanted) const {
    QD_ASSIGN_OR_RETURN(const Parameter* parameter, find(name));
    const AxisPlacement is = parameter->shape.gradient_placement.on(Axis::kTensor);
    if (is == wanted) return {};
    return mismatch("the gradient of " + name, is, "backward makes it " + wanted.to_text());
  }

  /// Between products: sums are formed, over rows where ranks share them.
  [[nodiscard]] Flow summed(const Flow& flow) const {
    QD_CHECK(!flow.placement.is_sharded());
    if (share_.shares_rows()) return {AxisPlacement::sharded(0), {}};
    return {};
  }

  Result<Flow> look_up(const std::string& name) {
    QD_RETURN_IF_ERROR(expect(name, AxisPlacement::sharded(0), "looked up word by word"));
    QD_RETURN_IF_ERROR(expect_gradient(name, AxisPlacement::sharded(0)));
    return Flow{AxisPlacement::partial(), {}};
  }

  /// Works row by row; its parameters' gradients are sums over the rows that a rank has. The result
  /// is gathered.
  Result<Flow> norm(const std::string& name, const Flow& x) {
    const AxisPlacement gradient =
        x.placement.is_sharded() ? AxisPlacement::partial() : AxisPlacement::replicated();
    for (const char* part : {".weight", ".bias"}) {
      if (part[1] == 'b' && !spec_.bias) continue;
      QD_RETURN_IF_ERROR(expect(name + part, AxisPlacement::replicated(), "applied to each row"));
      QD_RETURN_IF_ERROR(expect_gradient(name + part, gradient));
    }
    return Flow{};
  }

  /// y = x W^T + b.
  Result<Flow> product(const std::string& name, const Flow& x) {
    QD_ASSIGN_OR_RETURN(const Parameter* weight, find(name + ".weight"));
    const AxisPlacement w = weight->shape.placement.on(Axis::kTensor);
    const bool inputs_cut = w.is_sharded() && w.dimension == 1;
    if (inputs_cut != x.placement.is_sharded() ||
        (inputs_cut && extents(*weight, w) != x.features)) {
      const std::string inputs = x.placement.is_sharded()
                                     ? "this rank has only its own columns of the input"
                                     : "its input is replicated";
      QD_RETURN_IF_ERROR(mismatch(name + ".weight", w, inputs));
    }
    Flow y;
    if (inputs_cut) y.placement = AxisPlacement::partial();
    if (w.is_sharded() && !inputs_cut) {
      y = {AxisPlacement::sharded(1, w.cut), extents(*weight, w)};
    }
    if (spec_.bias) {
      const AxisPlacement bias =
          y.placement.is_sharded() ? AxisPlacement::sharded(0, w.cut) : AxisPlacement::replicated();
      QD_RETURN_IF_ERROR(expect(name + ".bias", bias, "added to " + y.placement.to_text()));
      QD_RETURN_IF_ERROR(expect_gradient(name + ".bias", bias));
    }
    if (w.is_sharded()) QD_RETURN_IF_ERROR(expect_gradient(name + ".weight", w));
    return y;
  }

  [[nodiscard]] std::vector<Extent> extents(const Parameter& weight, AxisPlacement w) const {
    const std::int64_t whole = weight.shape.shape[static_cast<std::size_t>(w.dimension)];
    return shard_extents(whole, w.cut, share_.index, share_.degree);
  }

  Result<Flow> attention(std::int64_t layer, const Flow& x) {
    const BlockNames names = block_names(spec_, layer);
    const std::string prefix = block_prefix(spec_, layer);
    QD_ASSIGN_OR_RETURN(const Flow normed, norm(names.attention_norm, x));
    Flow queries;
    if (spec_.family == ModelFamily::kLlama) {
      QD_ASSIGN_OR_RETURN(queries, product(prefix + "self_attn.q_proj", normed));
      for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"}) {
        QD_RETURN_IF_ERROR(keys(prefix + name, normed, queries));
      }
    } else {
      QD_ASSIGN_OR_RETURN(queries, product(prefix + "attn.c_attn", normed));
      if (queries.placement.cut.parts != 3) {
        QD_RETURN_IF_ERROR(mismatch(prefix + "attn.c_attn.weight", queries.placement,
                                    "it holds queries, keys and values, each cut alike"));
      }
      queries.features.resize(1);
    }
    QD_RETURN_IF_ERROR(whole_heads(prefix, queries));
    QD_ASSIGN_OR_RETURN(const Flow y, product(names.attention_output, queries));
    return summed(y);
  }

  Result<void> whole_heads(const std::string& prefix, const Flow& queries) const {
    const std::int64_t width = spec_.head_width();
    const Extent heads = query_heads(spec_, share_);
    const Extent columns{heads.first * width, heads.length * width};
    if (queries.features == std::vector<Extent>{columns}) return {};
    return mismatch("the attention of " + prefix, queries.placement,
                    "its ranks work on whole heads");
  }

  /// Of the heads that the queries share: this rank's own, or one of the whole.
  Result<void> keys(const std::string& name, const Flow& x, const Flow& queries) {
    QD_ASSIGN_OR_RETURN(const Flow y, product(name, x));
    if (!y.placement.is_sharded()) {
      // Each rank multiplies one head's rows: the gradients of the others are zero there.
      return expect_gradient(name + ".weight", AxisPlacement::partial());
    }
    const std::int64_t width = spec_.head_width();
    const Extent heads = kv_heads(spec_, share_);
    if (y.features == std::vector<Extent>{{heads.first * width, heads.length * width}}) return {};
    return mismatch(name + ".weight", y.placement,
                    "the queries are " + queries.placement.to_text());
  }

  Result<Flow> mlp(std::int64_t layer, const Flow& x) {
    const BlockNames names = block_names(spec_, layer);
    const std::string prefix = block_prefix(spec_, layer);
    QD_ASSIGN_OR_RETURN(const Flow normed, norm(names.mlp_norm, x));
    const bool gated = spec_.family == ModelFamily::kLlama;
    QD_ASSIGN_OR_RETURN(const Flow expanded,
                        product(prefix + (gated ? "mlp.up_proj" : "mlp.c_fc"), normed));
    if (gated) {
      QD_ASSIGN_OR_RETURN(const Flow gate, product(prefix + "mlp.gate_proj", normed));
      if (gate.features != expanded.features) {
        QD_RETURN_IF_ERROR(
            mismatch(prefix + "mlp.gate_proj.weight", gate.placement,
                     "the values that it gates are " + expanded.placement.to_text()));
      }
    }
    QD_ASSIGN_OR_RETURN(const Flow y, product(names.mlp_output, expanded));
    return summed(y);
  }

  const ModelSpec& spec_;
  const TensorShare& share_;
  std::span<const Parameter> parameters_;
};

}  // namespace

Result<void> check_placements(const ModelSpec& spec, const TensorShare& share,
                              std::span<const Parameter> parameters) {
  if (share.degree == 1) return {};
  return PlacementChecker(spec, share, parameters).run();
}

}  // namespace quadrille::internal
