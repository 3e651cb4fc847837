/* plan.h: from a prediction per offer to wall-clock, cost and a ranking. */
#ifndef SG_CALIBRATION_PLAN_PLAN_H
#define SG_CALIBRATION_PLAN_PLAN_H

#include "calibration/predict/predict.h"
#include "datasets/catalogue/dataset.h"

typedef struct sg_plan_request {
    sg_policy_request policy;
    const int64_t *batches; /* samples per GPU to choose from, each offer with each; none: the policy's batch alone */
    size_t n_batches;
    const sg_dataset *dataset; /* or NULL: then frames */
    const char *dataset_text;  /* what its loading depends on (sg_predict_options.dataset), or NULL */
    int64_t frames;            /* of the data set when `dataset` is NULL */
    int64_t steps; /* > 0: of one process, overrides epochs; both zero: LeRobot's default. PPO: iterations */
    double epochs;
    int64_t save_every;            /* checkpoints each so many steps; 0 = none but the last */
    double budget_usd, deadline_s; /* 0 = none */
    double interval;               /* probability of the intervals; 0 = 0.9 */
    int workers;                   /* of each process */
    bool choose_workers; /* each offer: as many of them as keep up, at most its vCPUs; workers where these do */
    const char *offers_path, *config_dir;
    const sg_machine *here;           /* fitted machine of this host, or NULL */
    const struct sg_fit *here_fit;    /* its laws (sg_predict_options.fit), or NULL */
    const struct sg_law *environment; /* PPO: of the simulator as seen here (sg_predict_options.environment), or NULL */
} sg_plan_request;

/* Steps are counted as LeRobot counts them: micro-batches of one process, samples = steps x batch x processes. More GPUs
 * see the same number of samples in fewer steps, and so do larger batches: `steps` of a request are those of the first. */
typedef struct sg_offer_answer {
    char provider[48], name[48], gpu[64], machine[64], price_date[16];
    int gpus, workers; /* of each process */
    int64_t batch, steps;
    bool fits;
    bool best;  /* of the batches of its offer */
    size_t row; /* of the offer, in its file */
    sg_figure step_s, wall_clock_s, cost_usd, peak_bytes;
    /* What wall_clock_s holds beside the steps; epoch_ends and checkpoints: how many. */
    sg_figure start_s, first_batch_s, checkpoints_s, epoch_ends_s;
    double checkpoints, epoch_ends;
    char limited_by[32];
    char loader_text[256]; /* where the loader limits: what it feeds, and what would lift it; else "" */
    sg_evidence evidence, device_evidence, host_evidence;
    char excluded[160]; /* empty, or why it is not recommended */
    char command[640];  /* how to start it there; empty where that is not known */
} sg_offer_answer;

typedef struct sg_plan_answer {
    int64_t steps, samples, steps_per_epoch; /* for one rank, with the first batch */
    size_t n_batches;
    sg_offer_answer *offers;
    size_t n_offers; /* ranked: recommended first, excluded last */
    int recommended; /* index, or -1 */
    char recommendation[768];
    double interval; /* probability of the intervals */
    sg_offer_answer here;
    bool has_here;
} sg_plan_answer;

/* Predicts every offer with every batch, from the same training: wall-clock = start-up + first batch + steps + checkpoints +
 * epoch ends, each with its own doubt; cost by the provider's billing rule. Recommended is the cheapest offer that fits in
 * memory, time and budget, upper bounds counted; of several that cost the same within 3 %, the one with the least upper bound.
 * An offer that cannot be predicted is excluded with the reason. */
sg_code sg_plan_make(const sg_plan_request *request, sg_plan_answer *answer, sg_status *status);
void sg_plan_clear(sg_plan_answer *answer);

#endif
