/* ppo.c: PPO as rsl_rl trains it: the tasks' sizes, parameters, rollout storage and the schedule of an iteration. */
#include "models/families/ppo.h"

#include <stdlib.h>
#include <string.h>

/* ---- tasks ---- */

typedef struct task {
    const char *name;
    int64_t actor_obs, critic_obs, actions, hidden[3];
    double entropy_weight;
    bool normalises;
} task;

/* Velocity tasks: 12 + 3 x joints observations, + 187 for a height scan; mjlab's critic sees both groups. */
static const task tasks[] = {
    {"mjlab-g1", 99, 198, 29, {512, 256, 128}, 0.01, false},
    {"mjlab-go1", 48, 96, 12, {512, 256, 128}, 0.01, false},
    {"anymal-d-rough", 235, 235, 12, {512, 256, 128}, 0.005, false},
    {"anymal-d-flat", 48, 48, 12, {128, 128, 128}, 0.005, false},
    {"g1-rough", 310, 310, 37, {512, 256, 128}, 0.008, false},
    {"g1-flat", 123, 123, 37, {256, 128, 128}, 0.008, false},
    {"microduck", 61, 76, 14, {512, 256, 128}, 0.01, true},
};

static const task *find_task(const char *name) {
    for (size_t i = 0; i + 1 < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(tasks[i].name, name) == 0) return &tasks[i];
    return &tasks[sizeof tasks / sizeof *tasks - 1];
}

sg_code sg_ppo_batch(const sg_options *options, int64_t *batch, sg_status *status) {
    int64_t envs = sg_option_int(options, "envs"), steps = sg_option_int(options, "steps_per_env");
    int64_t mini_batches = sg_option_int(options, "mini_batches");
    int64_t collected = envs * steps;
    *batch = collected / mini_batches;
    if (collected > INT32_MAX) {
        return sg_fail(status, SG_BAD_INPUT,
                       "envs %lld x steps_per_env %lld are %lld steps per iteration, more than %d: use fewer",
                       (long long)envs, (long long)steps, (long long)collected, INT32_MAX);
    }
    if (*batch >= 1) return SG_OK;
    return sg_fail(
        status, SG_BAD_INPUT,
        "mini_batches %lld (%s) exceeds the %lld steps collected (envs %lld x steps_per_env %lld): use fewer",
        (long long)mini_batches, sg_option_origin(options, "mini_batches"), (long long)collected, (long long)envs,
        (long long)steps);
}

/* ---- configuration ---- */

static int64_t int_or(const sg_options *o, const char *key, int64_t otherwise) {
    int64_t value = sg_option_int(o, key);
    return value ? value : otherwise;
}

static void configure(sg_ppo *m, const sg_options *o, const task *t, int64_t batch) {
    const char *normalises = sg_option_text(o, "empirical_normalization");
    *m = (sg_ppo){.actor_obs = int_or(o, "actor_obs", t->actor_obs),
                  .critic_obs = int_or(o, "critic_obs", t->critic_obs),
                  .actions = int_or(o, "actions", t->actions),
                  .envs = sg_option_int(o, "envs"),
                  .steps = sg_option_int(o, "steps_per_env"),
                  .mini_batches = sg_option_int(o, "mini_batches"),
                  .epochs = sg_option_int(o, "ppo_epochs"),
                  .batch = batch,
                  .clip = sg_option_real(o, "clip_param"),
                  .gamma = sg_option_real(o, "gamma"),
                  .lambda = sg_option_real(o, "lam"),
                  .entropy_weight = sg_option_real(o, "entropy_coef"),
                  .value_weight = sg_option_real(o, "value_loss_coef"),
                  .desired_kl = sg_option_real(o, "desired_kl"),
                  .noise = sg_option_real(o, "init_noise_std"),
                  .clips_value = sg_option_bool(o, "use_clipped_value_loss"),
                  .adaptive = strcmp(sg_option_text(o, "schedule"), "adaptive") == 0,
                  .normalises = strcmp(normalises, "task") == 0 ? t->normalises : strcmp(normalises, "true") == 0};
    if (m->entropy_weight < 0) m->entropy_weight = t->entropy_weight;
}

/* ---- parameters ---- */

static sg_mlp network(sg_graph *g, const sg_options *o, const task *t, const char *name, const char *key, int64_t in,
                      int64_t out) {
    size_t n;
    const int64_t *hidden = sg_option_list(o, key, &n);
    if (n == 1 && hidden[0] == 0) {
        hidden = t->hidden;
        n = 3;
    }
    for (size_t i = 0; i < n; i++)
        if (hidden[i] == 0)
            sg_graph_fail(g, SG_BAD_INPUT, "%s (%s): a hidden layer of width 0; 0 alone means the task's widths", key,
                          sg_option_origin(o, key));
    sg_fn activation = sg_activation_named(sg_option_text(o, "activation"));
    return sg_mlp_make(g, name, in, hidden, n, out, activation, (sg_layer_style){.dtype = SG_F32});
}

static sg_ppo_normaliser normaliser(sg_graph *g, const char *name, int64_t width) {
    sg_ppo_normaliser n;
    const int64_t row[] = {1, width};
    sg_module_begin(g, "%s", name);
    n.mean = sg_buffer(g, "_mean", 2, row, 0.0);
    n.variance = sg_buffer(g, "_var", 2, row, 1.0);
    n.deviation = sg_buffer(g, "_std", 2, row, 1.0);
    n.count = sg_buffer(g, "count", 0, NULL, 1.0);
    sg_module_end(g);
    return n;
}

static void parameters(sg_graph *g, sg_ppo *m, const sg_options *o, const task *t) {
    m->actor = network(g, o, t, "actor", "actor_hidden_dims", m->actor_obs, m->actions);
    sg_module_begin(g, "actor");
    m->deviation = sg_param_constant(g, "std", 1, &m->actions, m->noise, (sg_layer_style){.dtype = SG_F32});
    sg_module_end(g);
    m->critic = network(g, o, t, "critic", "critic_hidden_dims", m->critic_obs, 1);
    if (!m->normalises) return;
    m->actor_normaliser = normaliser(g, "actor_obs_normalizer", m->actor_obs);
    m->critic_normaliser = normaliser(g, "critic_obs_normalizer", m->critic_obs);
}

/* ---- rollout storage ---- */

static void storage(sg_graph *g, sg_ppo *m) {
    const struct {
        const char *name;
        int64_t width;
        double low, high;
    } fields[SG_PPO_FIELD_COUNT] = {
        [SG_PPO_ACTOR_OBS] = {"storage.actor_obs", m->actor_obs, -1, 1},
        [SG_PPO_CRITIC_OBS] = {"storage.critic_obs", m->critic_obs, -1, 1},
        [SG_PPO_ACTIONS] = {"storage.actions", m->actions, -1, 1},
        [SG_PPO_VALUES] = {"storage.values", 1, -1, 1},
        [SG_PPO_RETURNS] = {"storage.returns", 1, -1, 1},
        [SG_PPO_ADVANTAGES] = {"storage.advantages", 1, -1, 1},
        [SG_PPO_LOG_DENSITY] = {"storage.actions_log_prob", 1, -1.0 * (double)m->actions, -0.9 * (double)m->actions},
        [SG_PPO_MEAN] = {"storage.mu", m->actions, -0.1, 0.1},
        [SG_PPO_DEVIATION] = {"storage.sigma", m->actions, 0.9, 1.1},
        [SG_PPO_REWARDS] = {"storage.rewards", 1, -1, 1},
        [SG_PPO_DONES] = {"storage.dones", 1, 0, 1},
    };
    for (int i = 0; i < SG_PPO_FIELD_COUNT; i++) {
        sg_desc desc =
            sg_desc_make(i == SG_PPO_DONES ? SG_U8 : SG_F32, 3, (int64_t[]){m->steps, m->envs, fields[i].width});
        m->storage[i] = sg_input_tensor(g, fields[i].name, SG_INPUT_STORAGE, desc, fields[i].low, fields[i].high);
    }
    sg_desc order = sg_desc_make(SG_I64, 1, (int64_t[]){m->steps * m->envs});
    m->order = sg_input_tensor(g, "storage.order", SG_INPUT_STORAGE, order, 0, (double)(m->steps * m->envs));
}

static sg_tid observed(sg_graph *g, const sg_ppo *m, const char *name, sg_dtype dtype, int64_t width, double low,
                       double high) {
    sg_desc desc = sg_desc_make(dtype, 2, (int64_t[]){m->envs, width});
    return sg_input_tensor(g, name, dtype == SG_U8 ? SG_INPUT_INTEGER : SG_INPUT_UNIFORM, desc, low, high);
}

/* The simulator runs on the device: what it gives does not travel. */
static void observations(sg_graph *g, sg_ppo *m) {
    m->now_actor_obs = observed(g, m, "actor_obs", SG_F32, m->actor_obs, -1, 1);
    m->now_critic_obs = observed(g, m, "critic_obs", SG_F32, m->critic_obs, -1, 1);
    m->now_rewards = observed(g, m, "rewards", SG_F32, 1, -1, 1);
    m->now_dones = observed(g, m, "dones", SG_U8, 1, 0, 1);
}

/* ---- the iteration ---- */

static void schedule(sg_graph *g, const sg_ppo *m, const sg_optimizer_spec *optimizer) {
    int32_t inference = sg_program_begin(g, "inference");
    sg_ppo_inference(g, m);
    sg_program_end(g);
    int32_t returns = sg_program_begin(g, "returns");
    sg_ppo_returns(g, m);
    sg_program_end(g);
    int32_t update = sg_program_begin(g, "update");
    sg_ppo_update(g, m, optimizer);
    sg_program_end(g);

    sg_block_begin(g, "collection", m->steps);
    sg_block_program(g, inference);
    sg_block_environment(g, m->envs);
    sg_block_end(g);
    sg_block_begin(g, "returns", 1);
    sg_block_program(g, returns);
    sg_block_end(g);
    sg_block_begin(g, "learning", m->epochs * m->mini_batches);
    sg_block_program(g, update);
    sg_block_end(g);
}

void sg_ppo_build(sg_graph *g, const sg_family_build *build) {
    const sg_options *o = build->options;
    const task *t = find_task(sg_option_text(o, "task"));
    sg_ppo m;
    configure(&m, o, t, build->batch);
    sg_training *training = sg_graph_training(g);
    training->envs = m.envs;
    training->steps_per_env = m.steps;
    training->optimizer_steps = m.epochs * m.mini_batches;
    training->env_step_us = sg_option_real(o, "env_step_us");
    parameters(g, &m, o, t);
    observations(g, &m);
    storage(g, &m);
    if (sg_graph_failed(g)) return;
    sg_optimizer_spec optimizer = {.decoupled_weight_decay = false,
                                   .lr = sg_option_real(o, "optimizer_lr"),
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8,
                                   .clip_norm = sg_option_real(o, "grad_clip_norm"),
                                   .clip_prefix = {"actor", "critic"}};
    schedule(g, &m, &optimizer);
}
