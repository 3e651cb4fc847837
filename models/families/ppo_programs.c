/* ppo_programs.c: what PPO computes in an iteration: inference, returns, mini-batch update.
 *
 * Inference writes slot 0 of the storage in every step, and every mini-batch takes the first rows of the
 * permutation: a program is the same each time it runs, and neither the kernels nor their bytes depend on which
 * slot or rows they touch. */
#include "models/families/ppo.h"
#include "models/layers/into.h"

/* ---- observations ---- */

static sg_tid normalised(sg_graph *g, const sg_ppo *m, const sg_ppo_normaliser *n, sg_tid x) {
    if (!m->normalises) return x;
    sg_tid centred = sg_sub(g, x, n->mean);
    return sg_div(g, centred, sg_add_scalar(g, n->deviation, 1e-2));
}

/* Running statistics take in one step's observations x[envs, width]. */
static void take_in(sg_graph *g, const sg_ppo *m, const sg_ppo_normaliser *n, sg_tid x) {
    sg_tid count = sg_unary_in_place(g, SG_FN_AFFINE, n->count, 1.0, (double)m->envs);
    sg_tid rate = sg_scale(g, sg_unary(g, SG_FN_RECIPROCAL, count, 0, 0), (double)m->envs);
    sg_tid mean = sg_reduce(g, SG_FN_MEAN, x, 1u << 0, true);
    sg_tid variance = sg_reduce(g, SG_FN_MEAN, sg_unary(g, SG_FN_SQUARE, sg_sub(g, x, mean), 0, 0), 1u << 0, true);
    sg_tid delta = sg_sub(g, mean, n->mean);
    sg_tid moved = sg_binary_in_place(g, SG_FN_ADD, n->mean, sg_mul(g, delta, rate), 1.0);
    sg_tid change = sg_mul(g, delta, sg_sub(g, mean, moved));
    change = sg_add(g, sg_sub(g, variance, n->variance), change);
    moved = sg_binary_in_place(g, SG_FN_ADD, n->variance, sg_mul(g, change, rate), 1.0);
    sg_unary_into(g, SG_FN_SQRT, moved, 0, 0, n->deviation);
}

static sg_gaussian act(sg_graph *g, const sg_ppo *m, sg_tid obs) {
    sg_tid mean = sg_mlp_apply(g, &m->actor, normalised(g, m, &m->actor_normaliser, obs));
    return sg_gaussian_make(g, mean, m->deviation);
}

static sg_tid value(sg_graph *g, const sg_ppo *m, sg_tid obs) {
    return sg_mlp_apply(g, &m->critic, normalised(g, m, &m->critic_normaliser, obs));
}

/* ---- inference ---- */

static void store(sg_graph *g, const sg_ppo *m, sg_ppo_field field, sg_tid x) {
    sg_copy_into(g, x, sg_select(g, m->storage[field], 0, 0));
}

void sg_ppo_inference(sg_graph *g, const sg_ppo *m) {
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_no_grad_begin(g);
    sg_gaussian d = act(g, m, m->now_actor_obs);
    sg_tid action = sg_gaussian_sample(g, &d), v = value(g, m, m->now_critic_obs);
    sg_tid log_density = sg_unsqueeze(g, sg_gaussian_log_density(g, &d, action), -1);
    store(g, m, SG_PPO_ACTIONS, action);
    store(g, m, SG_PPO_MEAN, d.mean);
    store(g, m, SG_PPO_DEVIATION, d.deviation);
    store(g, m, SG_PPO_LOG_DENSITY, log_density);
    store(g, m, SG_PPO_VALUES, v);
    store(g, m, SG_PPO_ACTOR_OBS, m->now_actor_obs);
    store(g, m, SG_PPO_CRITIC_OBS, m->now_critic_obs);
    store(g, m, SG_PPO_REWARDS, m->now_rewards);
    store(g, m, SG_PPO_DONES, m->now_dones);
    if (m->normalises) {
        take_in(g, m, &m->actor_normaliser, m->now_actor_obs);
        take_in(g, m, &m->critic_normaliser, m->now_critic_obs);
    }
    sg_no_grad_end(g);
}

/* ---- returns ---- */

static sg_tid at(sg_graph *g, const sg_ppo *m, sg_ppo_field field, int64_t step) {
    return sg_select(g, m->storage[field], 0, step);
}

/* One backward step of the estimate: -> the advantage at `step`, from that of the step behind it. */
static sg_tid advantage_at(sg_graph *g, const sg_ppo *m, int64_t step, sg_tid next_value, sg_tid advantage) {
    sg_tid done = sg_to(g, at(g, m, SG_PPO_DONES, step), sg_float(g));
    sg_tid alive = sg_unary(g, SG_FN_AFFINE, done, -1.0, 1.0);
    sg_tid reward = at(g, m, SG_PPO_REWARDS, step);
    sg_tid ahead = sg_mul(g, sg_scale(g, alive, m->gamma), next_value);
    sg_tid delta = sg_sub(g, sg_add(g, reward, ahead), at(g, m, SG_PPO_VALUES, step));
    sg_tid decay = sg_scale(g, sg_scale(g, alive, m->gamma), m->lambda);
    decay = advantage == SG_NO_TENSOR ? sg_scale(g, decay, 0.0) : sg_mul(g, decay, advantage);
    advantage = sg_add(g, delta, decay);
    sg_tid total = sg_add(g, advantage, at(g, m, SG_PPO_VALUES, step));
    sg_copy_into(g, total, at(g, m, SG_PPO_RETURNS, step));
    return advantage;
}

void sg_ppo_returns(sg_graph *g, const sg_ppo *m) {
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_no_grad_begin(g);
    sg_tid next_value = sg_detach(g, value(g, m, m->now_critic_obs)), advantage = SG_NO_TENSOR;
    for (int64_t step = m->steps - 1; step >= 0 && !sg_graph_failed(g); step--) {
        if (step < m->steps - 1) next_value = at(g, m, SG_PPO_VALUES, step + 1);
        advantage = advantage_at(g, m, step, next_value, advantage);
    }
    sg_tid all = sg_sub(g, m->storage[SG_PPO_RETURNS], m->storage[SG_PPO_VALUES]);
    sg_tid centred = sg_sub(g, all, sg_mean_all(g, all));
    sg_tid spread = sg_add_scalar(g, sg_reduce(g, SG_FN_STD, all, 7u, false), 1e-8);
    sg_binary_into(g, SG_FN_DIV, centred, spread, m->storage[SG_PPO_ADVANTAGES]);
    sg_copy_into(g, sg_randperm(g, m->steps * m->envs), m->order);
    sg_no_grad_end(g);
}

/* ---- update ---- */

/* The permuted rows of a mini-batch: [batch, .] of each gathered field. */
static void gather(sg_graph *g, const sg_ppo *m, sg_tid batch[SG_PPO_GATHERED]) {
    sg_tid flat[SG_PPO_GATHERED] = {0};
    for (int i = 0; i < SG_PPO_GATHERED && !sg_graph_failed(g); i++) {
        int64_t width = sg_desc_of(g, m->storage[i])->size[2];
        flat[i] = sg_view(g, m->storage[i], 2, (int64_t[]){m->steps * m->envs, width});
    }
    if (sg_graph_failed(g)) return;
    sg_tid rows = sg_slice(g, m->order, 0, 0, m->batch);
    for (int i = 0; i < SG_PPO_GATHERED; i++) batch[i] = sg_gather_rows(g, flat[i], rows);
}

/* The adaptive schedule compares the mean divergence on the host. */
static void steer(sg_graph *g, const sg_ppo *m, const sg_gaussian *d, const sg_tid *batch) {
    if (!m->adaptive || m->desired_kl <= 0) return;
    sg_no_grad_begin(g);
    sg_gaussian old = {batch[SG_PPO_MEAN], batch[SG_PPO_DEVIATION]};
    sg_tid kl = sg_gaussian_mean_kl(g, d, &old);
    sg_wait(g, sg_compare_scalar(g, SG_FN_GT, kl, 2.0 * m->desired_kl));
    sg_no_grad_end(g);
}

static sg_tid surrogate_loss(sg_graph *g, const sg_ppo *m, sg_tid log_density, const sg_tid *batch) {
    sg_tid old = sg_squeeze(g, batch[SG_PPO_LOG_DENSITY], 1);
    sg_tid ratio = sg_unary(g, SG_FN_EXP, sg_sub(g, log_density, old), 0, 0);
    sg_tid loss[2];
    for (int i = 0; i < 2; i++) {
        sg_tid gain = sg_unary(g, SG_FN_NEG, sg_squeeze(g, batch[SG_PPO_ADVANTAGES], 1), 0, 0);
        sg_tid held = i ? sg_unary(g, SG_FN_CLAMP, ratio, 1.0 - m->clip, 1.0 + m->clip) : ratio;
        loss[i] = sg_mul(g, gain, held);
    }
    return sg_mean_all(g, sg_binary(g, SG_FN_MAX, loss[0], loss[1], 0));
}

static sg_tid squared_error(sg_graph *g, sg_tid x, sg_tid y) {
    return sg_unary(g, SG_FN_SQUARE, sg_sub(g, x, y), 0, 0);
}

static sg_tid value_loss(sg_graph *g, const sg_ppo *m, sg_tid v, const sg_tid *batch) {
    if (!m->clips_value) return sg_mean_all(g, squared_error(g, batch[SG_PPO_RETURNS], v));
    sg_tid change = sg_unary(g, SG_FN_CLAMP, sg_sub(g, v, batch[SG_PPO_VALUES]), -m->clip, m->clip);
    sg_tid near = sg_add(g, batch[SG_PPO_VALUES], change);
    sg_tid loss[2] = {squared_error(g, v, batch[SG_PPO_RETURNS]), SG_NO_TENSOR};
    loss[1] = squared_error(g, near, batch[SG_PPO_RETURNS]);
    return sg_mean_all(g, sg_binary(g, SG_FN_MAX, loss[0], loss[1], 0));
}

void sg_ppo_update(sg_graph *g, const sg_ppo *m, const sg_optimizer_spec *optimizer) {
    sg_tid batch[SG_PPO_GATHERED] = {0};
    sg_pass_set(g, SG_PASS_PREPROCESS);
    sg_mark_here(g, SG_MARK_PREPROCESS);
    gather(g, m, batch);
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_gaussian d = act(g, m, batch[SG_PPO_ACTOR_OBS]);
    if (sg_graph_profile(g)->unused_results) (void)sg_gaussian_sample(g, &d); /* the module always draws */
    sg_tid log_density = sg_gaussian_log_density(g, &d, batch[SG_PPO_ACTIONS]);
    sg_tid v = value(g, m, batch[SG_PPO_CRITIC_OBS]), entropy = sg_gaussian_entropy(g, &d);
    steer(g, m, &d, batch);
    sg_tid surrogate = surrogate_loss(g, m, log_density, batch), of_value = value_loss(g, m, v, batch);
    sg_graph_training(g)->loss = of_value;
    sg_tid loss = sg_add(g, surrogate, sg_scale(g, of_value, m->value_weight));
    loss = sg_sub(g, loss, sg_scale(g, sg_mean_all(g, entropy), m->entropy_weight));
    sg_shard_parameters(g, optimizer);
    sg_backward(g, sg_scaled_loss(g, loss), true, true);
    sg_optimizer_step(g, optimizer);
    sg_no_grad_begin(g);
    sg_wait(g, of_value);
    sg_wait(g, surrogate);
    sg_wait(g, sg_mean_all(g, entropy));
    sg_no_grad_end(g);
}
