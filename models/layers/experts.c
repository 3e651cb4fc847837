/* experts.c: a mixture of feed-forward experts with top-1 routing and a capacity. */
#include "models/layers/experts.h"

static const sg_layer_style fp32 = {.dtype = SG_F32};
static const double init_sd = 0.02; /* as all matrices of language models (families/language.c) */

static sg_linear_layer linear(sg_graph *g, const char *name, int64_t in, int64_t out) {
    sg_linear_layer layer = {sg_graph_text(g, "%s", name), SG_NO_TENSOR, SG_NO_TENSOR};
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param_normal(g, "weight", 2, (int64_t[]){out, in}, init_sd, fp32);
    sg_module_end(g);
    return layer;
}

sg_expert sg_expert_make(sg_graph *g, const char *name, const sg_experts_config *config) {
    sg_module_begin(g, "%s", name);
    sg_expert e = {linear(g, "wi", config->width, config->feedforward),
                   linear(g, "wo", config->feedforward, config->width)};
    sg_module_end(g);
    return e;
}

sg_tid sg_expert_apply(sg_graph *g, const sg_expert *expert, const sg_experts_config *config, sg_tid x) {
    x = sg_activation_apply(g, config->activation, sg_linear_apply(g, &expert->up, x));
    return sg_linear_apply(g, &expert->down, sg_dropout(g, x, config->dropout, 0, 1));
}

sg_experts sg_experts_make(sg_graph *g, const char *name, const sg_experts_config *config, sg_expert *expert) {
    sg_experts experts = {.name = sg_graph_text(g, "%s", name), .expert = expert};
    sg_module_begin(g, "%s", name);
    experts.router = linear(g, "router.classifier", config->width, config->experts);
    for (int64_t i = 0; i < config->experts; i++)
        expert[i] = sg_expert_make(g, sg_graph_text(g, "experts.expert_%lld", (long long)i), config);
    sg_module_end(g);
    return experts;
}

typedef struct routed {
    sg_tid probability; /* [b, t, 1]: of the chosen expert */
    sg_tid chosen;      /* [b, t, experts]: 1 where a token goes to an expert, else 0 */
} routed;

/* Softmax over the experts; of its choice one-hot vectors, without the tokens whose place in their expert's queue is beyond the
 * capacity. */
static routed route(sg_graph *g, const sg_experts *experts, const sg_experts_config *config, sg_tid x) {
    const sg_desc d = *sg_desc_of(g, x);
    if (config->jitter > 0)
        x = sg_mul(g, x, sg_rand(g, sg_float(g), 3, d.size, 1 - config->jitter, 1 + config->jitter, 0));
    sg_tid p = sg_softmax(g, sg_linear_apply(g, &experts->router, x));
    sg_no_grad_begin(g);
    sg_tid best = sg_reduce(g, SG_FN_MAX, p, 1u << 2, true);
    sg_tid chosen = sg_to(g, sg_binary(g, SG_FN_EQ, p, best, 0), sg_float(g));
    sg_tid within = sg_compare_scalar(g, SG_FN_LE, sg_cumsum(g, chosen, 1), (double)config->capacity);
    sg_tid mask = sg_mul(g, chosen, sg_to(g, within, sg_float(g)));
    sg_no_grad_end(g);
    return (routed){sg_reduce(g, SG_FN_SUM, sg_mul(g, p, chosen), 1u << 2, true), mask};
}

/* Where in a mask [b, t] the tokens are (nonzero, one call): their number, which the host reads, and the place of each. */
static void find_tokens(sg_graph *g, sg_tid mask) {
    sg_no_grad_begin(g);
    sg_wait(g, sg_sum_all(g, mask));
    sg_same_dispatch(g);
    (void)sg_cumsum(g, mask, 1);
    sg_no_grad_end(g);
}

/* How the tokens of a sequence are spread: the first `chosen` experts get n each. */
typedef struct spread {
    int64_t batch, tokens, chosen, n;
} spread;

static spread spread_of(const sg_experts_config *config, const sg_desc *x) {
    spread s = {.batch = x->size[0], .tokens = x->size[1], .chosen = config->alike ? 1 : config->experts};
    s.n = s.tokens / s.chosen;
    if (s.n > config->capacity) s.n = config->capacity;
    return s;
}

/* Rows of x[b t, width] that go to this expert: index[b, n]. */
static sg_tid rows_of(sg_graph *g, const spread *s, int64_t expert) {
    sg_tid first = sg_view(g, sg_arange(g, SG_I64, 0, (double)s->tokens, s->batch), 2, (int64_t[]){s->batch, 1});
    sg_tid inside = sg_arange(g, SG_I64, (double)expert, (double)s->chosen, s->n);
    return sg_add(g, first, sg_view(g, inside, 2, (int64_t[]){1, s->n}));
}

static sg_tid visit(sg_graph *g, const sg_experts *experts, const sg_experts_config *config, const spread *s,
                    int64_t index, sg_tid chosen, sg_tid flat) {
    sg_no_grad_begin(g);
    sg_tid mask = sg_contiguous(g, sg_select(g, chosen, 2, index)), y = SG_NO_TENSOR;
    sg_no_grad_end(g);
    find_tokens(g, mask);
    if (index < s->chosen) {
        sg_module_begin(g, "experts.expert_%lld", (long long)index);
        y = sg_expert_apply(g, &experts->expert[index], config, sg_embedding(g, flat, rows_of(g, s, index)));
        sg_module_end(g);
    }
    find_tokens(g, mask);
    return y;
}

static sg_tid visit_experts(sg_graph *g, const sg_experts *experts, const sg_experts_config *config, sg_tid chosen,
                            sg_tid x) {
    const sg_desc d = *sg_desc_of(g, x);
    const spread s = spread_of(config, &d);
    sg_tid done[SG_EXPERTS_MAX], flat = sg_view(g, x, 2, (int64_t[]){s.batch * s.tokens, d.size[2]});
    for (int64_t i = 0; i < config->experts && !sg_graph_failed(g); i++) {
        sg_tid y = visit(g, experts, config, &s, i, chosen, flat);
        if (i < s.chosen) done[i] = y;
    }
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    int64_t routed = s.n * s.chosen;
    sg_tid y = sg_view(g, sg_stack(g, (int)s.chosen, done, 2), 3, (int64_t[]){s.batch, routed, d.size[2]});
    if (routed == s.tokens) return y;
    return sg_cat(g, 2, (const sg_tid[]){y, sg_slice(g, x, 1, routed, s.tokens - routed)}, 1);
}

sg_tid sg_experts_apply(sg_graph *g, const sg_experts *experts, const sg_experts_config *config, sg_tid x) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    sg_module_begin(g, "%s", experts->name);
    routed r = route(g, experts, config, x);
    sg_tid y = sg_mul(g, r.probability, visit_experts(g, experts, config, r.chosen, x));
    sg_module_end(g);
    return y;
}
