/* Plans: steps as LeRobot counts them, bills, exclusions, ranking, offers files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration/plan/offers.h"
#include "calibration/plan/plan.h"
#include "calibration/plan/plan_text.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static void assert_contains(const char *text, const char *part) {
    if (strstr(text, part)) return;
    print_error("\"%s\" does not contain \"%s\"\n", text, part);
    fail();
}

/* A small ACT: what is asked here does not depend on the policy's size. */
static const sg_setting small[] = {
    {"cameras", "1", "test"},    {"image_height", "96", "test"},     {"image_width", "96", "test"},
    {"dim_model", "64", "test"}, {"dim_feedforward", "128", "test"}, {"chunk_size", "10", "test"},
    {"n_heads", "4", "test"},
};

static sg_plan_request small_request(void) {
    return (sg_plan_request){
        .policy = {.policy = "act", .batch = 8, .settings = small, .n_settings = sizeof small / sizeof *small},
        .frames = 10001,
        .epochs = 3,
        .save_every = 1000,
        .workers = 4,
        .config_dir = CONFIGS,
    };
}

static void plan(const sg_plan_request *r, sg_plan_answer *a) {
    sg_status status;
    if (sg_plan_make(r, a, &status)) fail_msg("%s", status.text);
}

static const sg_offer_answer *offer_of(const sg_plan_answer *a, const char *name) {
    for (size_t i = 0; i < a->n_offers; i++)
        if (strcmp(a->offers[i].name, name) == 0) return &a->offers[i];
    fail_msg("no offer %s", name);
    return &a->offers[0];
}

/* What limits a loader is said with what would lift it, and what the data is kept as counts: large PNG images take longer to
 * decode than video. */
static void test_loader(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer video, images;
    r.workers = 1;
    r.dataset_text = "lerobot-v3.0;av1;480x640;gop=2;cameras=1;name=video";
    plan(&r, &video);
    r.dataset_text = "images;png;480x640;cameras=1;name=images";
    plan(&r, &images);
    assert_string_equal(images.offers[images.recommended].limited_by, "loader");
    assert_non_null(strstr(images.recommendation, "1 worker feeds"));
    assert_non_null(strstr(images.recommendation, "would lift it"));
    assert_true(offer_of(&images, "t4-small")->step_s.value > 1.5 * offer_of(&video, "t4-small")->step_s.value);
    sg_plan_clear(&video);
    sg_plan_clear(&images);
}

/* Workers that keep up where there are processors for them, and never more than these; the command takes them. */
static void test_workers(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer given, chosen;
    char argument[32];
    r.workers = 1;
    r.dataset_text = "images;png;480x640;cameras=1;name=images";
    plan(&r, &given);
    r.choose_workers = true;
    plan(&r, &chosen);
    int more = 0;
    for (size_t i = 0; i < chosen.n_offers; i++) {
        const sg_offer_answer *a = &chosen.offers[i], *before = offer_of(&given, a->name);
        assert_int_equal(before->workers, 1);
        assert_true(a->workers >= 1);
        assert_true(!(a->step_s.value > 1.001 * before->step_s.value));
        more += a->workers > 1;
        if (!a->command[0]) continue;
        (void)snprintf(argument, sizeof argument, "--num_workers=%d ", a->workers);
        assert_non_null(strstr(a->command, argument));
    }
    assert_true(more > 0);
    r.workers = 4096; /* more than any offer has processors */
    sg_plan_answer fewer;
    plan(&r, &fewer);
    for (size_t i = 0; i < fewer.n_offers; i++) assert_true(fewer.offers[i].workers < 1024);
    sg_plan_clear(&given);
    sg_plan_clear(&chosen);
    sg_plan_clear(&fewer);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static void test_steps(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer a;
    plan(&r, &a);
    assert_int_equal(a.steps_per_epoch, 1251); /* ceil(10001 / 8) */
    assert_int_equal(a.steps, 3751);           /* ceil(30003 / 8) */
    assert_int_equal(a.samples, 3751 * 8);
    assert_int_equal(offer_of(&a, "t4-small")->steps, 3751);
    assert_int_equal(offer_of(&a, "a10g-largex2")->steps, 1876); /* ceil(30003 / 16) */
    assert_int_equal(offer_of(&a, "a100x8")->steps, 469);        /* ceil(30003 / 64) */
    sg_plan_clear(&a);

    r.policy.accumulation = 4; /* steps are micro-batches; optimizer steps are whole */
    plan(&r, &a);
    assert_int_equal(a.steps, 3752);
    sg_plan_clear(&a);

    r = small_request();
    r.steps = 500;
    plan(&r, &a);
    assert_int_equal(a.steps, 500);
    assert_int_equal(offer_of(&a, "l4x4")->steps, 125); /* the same samples */
    sg_plan_clear(&a);

    r = small_request();
    r.epochs = 0;
    plan(&r, &a);
    assert_int_equal(a.steps, 100000); /* LeRobot's default */
    sg_plan_clear(&a);
}

/* Where the time goes that is not steps; workers stay over epochs, so the ends of small ones are no start of workers. */
static void test_wall_clock_parts(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer a, more;
    r.frames = 200;
    r.epochs = 400;
    r.dataset_text = "lerobot-v3.0;av1;480x640;gop=2;cameras=1;name=video";
    plan(&r, &a);
    for (size_t i = 0; i < a.n_offers; i++) {
        const sg_offer_answer *o = &a.offers[i];
        if (!isfinite(o->wall_clock_s.value)) continue;
        double steps_s = (double)o->steps * o->step_s.value;
        double sum =
            steps_s + o->start_s.value + o->first_batch_s.value + o->checkpoints_s.value + o->epoch_ends_s.value;
        assert_true(fabs(sum / o->wall_clock_s.value - 1) < 1e-9);
        assert_true(o->epoch_ends == 399 && o->epoch_ends_s.value > 0 && o->first_batch_s.value > 0);
        /* at most all of an epoch's batches made one round after the other, with nothing ahead */
        double rounds = ceil(ceil(200.0 / (8.0 * o->gpus)) / o->workers);
        assert_true(o->epoch_ends_s.value / 399 < rounds * o->first_batch_s.value + 0.01);
    }
    r.epochs = 1;
    plan(&r, &more);
    assert_true(more.offers[0].epoch_ends == 0 && more.offers[0].epoch_ends_s.value == 0);
    sg_plan_clear(&a);
    sg_plan_clear(&more);
}

/* Of offers that cost the same within 3 %, the one that may cost least stands first. */
static void test_ties(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer a;
    size_t ties = 0;
    for (int64_t steps = 1000; steps <= 64000; steps *= 4) {
        r.steps = steps;
        plan(&r, &a);
        for (size_t i = 0; i + 1 < a.n_offers && !a.offers[i + 1].excluded[0]; i++) {
            const sg_figure *first = &a.offers[i].cost_usd, *next = &a.offers[i + 1].cost_usd;
            if (next->value >= first->value) continue; /* else the order of expected costs stands */
            assert_true(first->value <= 1.03 * next->value && first->high <= next->high);
            ties++;
        }
        sg_plan_clear(&a);
    }
    assert_true(ties > 0);
}

static void test_bad_requests(void **state) {
    (void)state;
    sg_plan_answer a;
    sg_status status;
    sg_plan_request r = small_request();
    r.frames = 0;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    assert_contains(status.text, "--frames");
    r = small_request();
    sg_dataset empty = {.path = "some/where"};
    r.dataset = &empty;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    assert_contains(status.text, "some/where holds no frames");
    r = small_request();
    r.epochs = NAN;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    r.epochs = -1;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    r.epochs = 1e300;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    assert_contains(status.text, "no training");
    r = small_request();
    r.frames = INT64_MAX;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    r = small_request();
    r.steps = INT64_MAX;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    r = small_request();
    r.budget_usd = NAN;
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    r = small_request();
    r.policy.policy = "atc";
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    assert_contains(status.text, "act");
    r = small_request();
    r.offers_path = "/nowhere/offers.csv";
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
    assert_contains(status.text, "/nowhere/offers.csv");
    r = small_request();
    r.config_dir = "/nowhere";
    assert_int_equal(sg_plan_make(&r, &a, &status), SG_BAD_INPUT);
}

/* ---- money, time, memory -------------------------------------------------------------------------------------------- */

/* Wall-clock is more than the steps, intervals are ordered, bills are whole minutes, and the ranking is by cost. */
static void test_answers(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer a;
    plan(&r, &a);
    assert_int_equal(a.n_offers, 22);
    assert_int_equal(a.recommended, 0);
    for (size_t i = 0; i < a.n_offers; i++) {
        const sg_offer_answer *o = &a.offers[i];
        assert_true(o->fits);
        assert_string_equal(o->excluded, "");
        assert_true(o->wall_clock_s.value > o->step_s.value * (double)o->steps);
        assert_true(o->wall_clock_s.low < o->wall_clock_s.value && o->wall_clock_s.value < o->wall_clock_s.high);
        assert_true(o->cost_usd.low <= o->cost_usd.value && o->cost_usd.value <= o->cost_usd.high);
        if (i) assert_true(1.03 * o->cost_usd.value >= a.offers[i - 1].cost_usd.value); /* but for ties */
        assert_int_equal(o->evidence, SG_EVIDENCE_DATA_SHEET);
        assert_int_equal(o->host_evidence, SG_EVIDENCE_DATA_SHEET);
        assert_true(o->limited_by[0] != 0);
        assert_string_equal(o->price_date, "2026-08-22");
        assert_contains(o->command, o->name);
        assert_contains(o->command, o->gpus == 1 ? "--job.target=" : "--flavor ");
    }
    const sg_offer_answer *t4 = offer_of(&a, "t4-small");
    double minutes = t4->cost_usd.value / 0.4 * 60; /* $0.40 per hour */
    assert_true(fabs(minutes - round(minutes)) < 1e-6);
    assert_true(minutes * 60 >= t4->wall_clock_s.value && (minutes - 1) * 60 < t4->wall_clock_s.value);
    assert_contains(a.recommendation, a.offers[0].name);
    assert_contains(a.offers[0].command, "--policy.dim_model=64");
    assert_null(strstr(a.offers[0].command, "cameras"));
    sg_plan_clear(&a);
}

/* A command is given where LeRobot's own would train just that. */
static void test_commands(void **state) {
    (void)state;
    static const sg_setting keypoints = {"spatial_softmax_num_keypoints", "16", "test"};
    static const sg_setting crop = {"crop_shape", "84,84", "test"};
    sg_plan_request r = small_request();
    sg_plan_answer a;
    r.policy = (sg_policy_request){.policy = "diffusion", .batch = 4, .settings = &keypoints, .n_settings = 1};
    plan(&r, &a);
    assert_contains(offer_of(&a, "t4-small")->command,
                    "--policy.type=diffusion --policy.spatial_softmax_num_keypoints=16");
    sg_plan_clear(&a);
    r.policy.settings = &crop;
    plan(&r, &a);
    assert_string_equal(offer_of(&a, "t4-small")->command, "");
    sg_plan_clear(&a);
    r.policy.settings = &keypoints;
    r.policy.framework = SG_FRAMEWORK_JAX;
    plan(&r, &a);
    assert_string_equal(offer_of(&a, "t4-small")->command, "");
    sg_plan_clear(&a);
}

static void test_commands_of_pi(void **state) {
    (void)state;
    static const sg_setting settings[] = {{"gradient_checkpointing", "true", "test"}, {"optimizer", "sgd", "test"}};
    sg_plan_request r = small_request();
    sg_plan_answer a;
    r.policy =
        (sg_policy_request){.policy = "pi05", .batch = 8, .precision = "bf16", .settings = settings, .n_settings = 1};
    plan(&r, &a);
    assert_contains(offer_of(&a, "h200")->command, "--policy.path=lerobot/pi05_base "
                                                   "--policy.gradient_checkpointing=true --policy.dtype=bfloat16 ");
    sg_plan_clear(&a);
    r.policy.n_settings = 2; /* LeRobot would need a scheduler named beside it */
    plan(&r, &a);
    assert_string_equal(offer_of(&a, "h200")->command, "");
    sg_plan_clear(&a);
}

static void test_budget_and_deadline(void **state) {
    (void)state;
    sg_plan_request r = small_request();
    sg_plan_answer a;
    plan(&r, &a);
    double cheapest = a.offers[0].cost_usd.high, least_s = 1e30;
    for (size_t i = 0; i < a.n_offers; i++) least_s = fmin(least_s, a.offers[i].wall_clock_s.high);
    sg_plan_clear(&a);

    r.budget_usd = cheapest * 1.001;
    plan(&r, &a);
    assert_int_equal(a.recommended, 0);
    assert_contains(a.offers[a.n_offers - 1].excluded, "the budget is");
    sg_plan_clear(&a);
    r.budget_usd = 0.001;
    plan(&r, &a);
    assert_int_equal(a.recommended, -1);
    assert_contains(a.recommendation, "None of the 22 offers");
    sg_plan_clear(&a);

    r = small_request();
    r.deadline_s = least_s * 1.001;
    plan(&r, &a);
    assert_int_equal(a.recommended, 0);
    for (size_t i = 0; i < a.n_offers; i++) {
        bool late = a.offers[i].wall_clock_s.high > r.deadline_s;
        assert_true(late == (a.offers[i].excluded[0] != 0));
        if (late) assert_contains(a.offers[i].excluded, "the deadline is");
        if (late) assert_true(i >= 1); /* those that will do come first */
    }
    sg_plan_clear(&a);
}

static const sg_offer_answer *with_batch(const sg_plan_answer *a, const char *name, int64_t batch) {
    for (size_t i = 0; i < a->n_offers; i++)
        if (strcmp(a->offers[i].name, name) == 0 && a->offers[i].batch == batch) return &a->offers[i];
    fail_msg("no offer %s with batch %lld", name, (long long)batch);
    return NULL;
}

/* Several batches: each offer with each, as plans of one batch say, of the same samples; the cheapest is recommended. */
static void test_batches(void **state) {
    (void)state;
    static const int64_t batches[] = {4, 16, 4096};
    sg_plan_request r = small_request(), alone = small_request();
    sg_plan_answer all, one;
    r.batches = batches;
    r.n_batches = 3;
    alone.policy.batch = 4;
    plan(&alone, &one);
    plan(&r, &all);
    assert_int_equal(all.n_offers, 3 * one.n_offers);
    assert_int_equal(all.steps, one.steps);
    for (size_t i = 0; i < one.n_offers; i++) {
        const sg_offer_answer *a = &one.offers[i], *b = with_batch(&all, a->name, 4);
        assert_memory_equal(&a->step_s, &b->step_s, sizeof a->step_s);
        assert_memory_equal(&a->cost_usd, &b->cost_usd, sizeof a->cost_usd);
        assert_memory_equal(&a->peak_bytes, &b->peak_bytes, sizeof a->peak_bytes);
        assert_int_equal(a->steps, b->steps);
        assert_string_equal(a->command, b->command);
    }
    assert_int_equal(with_batch(&all, "t4-small", 16)->steps, (with_batch(&all, "t4-small", 4)->steps + 3) / 4);
    assert_non_null(strstr(with_batch(&all, "t4-small", 16)->command, "--batch_size=16"));
    assert_true(with_batch(&all, "t4-small", 4096)->excluded[0] != 0);
    for (size_t i = 0; i < all.n_offers; i++)
        if (!all.offers[i].excluded[0])
            assert_true(all.offers[all.recommended].cost_usd.value <= all.offers[i].cost_usd.value);
    size_t best = 0;
    for (size_t i = 0; i < all.n_offers; i++) best += all.offers[i].best;
    assert_true(best == one.n_offers && all.offers[0].best);
    char with[32];
    (void)snprintf(with, sizeof with, "with batch %lld", (long long)all.offers[all.recommended].batch);
    assert_non_null(strstr(all.recommendation, with));
    sg_plan_clear(&one);
    sg_plan_clear(&all);
}

/* A batch that a T4 cannot hold is excluded there and recommended elsewhere. */
static void test_memory(void **state) {
    (void)state;
    sg_setting full[] = {{"cameras", "2", "test"}};
    sg_plan_request r = small_request();
    r.policy.settings = full;
    r.policy.n_settings = 1;
    r.policy.batch = 64; /* about 26 GiB: field reports call it out of memory on 16 and 24 GB */
    sg_plan_answer a;
    plan(&r, &a);
    const sg_offer_answer *t4 = offer_of(&a, "t4-medium"), *a10g = offer_of(&a, "a10g-large"),
                          *a100 = offer_of(&a, "a100-large");
    assert_false(t4->fits);
    assert_false(a10g->fits);
    assert_contains(t4->excluded, "GiB of 15.0");
    assert_true(a100->fits);
    assert_string_equal(a100->excluded, "");
    assert_true(a.recommended == 0 && a.offers[0].fits);
    sg_plan_clear(&a);
}

/* Policies without a rate on some machine: that machine is excluded with the reason, the others are answered. */
static void test_here_and_own_offers(void **state) {
    (void)state;
    char path[128], sheet[160];
    (void)snprintf(path, sizeof path, "/tmp/stepgauge-offers-%d.csv", (int)getpid());
    (void)snprintf(sheet, sizeof sheet, "/tmp/stepgauge-sheet-%d.yaml", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(
        f,
        "price_date,provider,name,gpu,machine,gpus,vcpus,ram_gb,usd_per_hour,billing,source\n"
        "2026-01-02,Own,cheap,L4,l4,1,8,30,0.10,hour,me\n2026-01-02,Own,two,MI300X,mi300x,2,8,30,3,second,me\n"
        "2026-01-02,Own,odd,?,%s,1,8,30,0.01,minute,me\n",
        sheet);
    assert_int_equal(fclose(f), 0);
    f = fopen(sheet, "w");
    assert_non_null(f);
    (void)fputs("title: Odd\ndevice_class: cuda\nparameters:\n"
                "  memory_bandwidth: {value: 1e12, log_sd: 0, source: s}\n",
                f);
    assert_int_equal(fclose(f), 0);
    sg_machine here;
    assert_int_equal(sg_machine_load("rtx-3090", CONFIGS, &here, NULL), SG_OK);
    sg_plan_request r = small_request();
    r.offers_path = path;
    r.here = &here;
    sg_plan_answer a;
    plan(&r, &a);
    assert_int_equal(a.n_offers, 3);
    const sg_offer_answer *cheap = offer_of(&a, "cheap");
    assert_true(fabs(fmod(cheap->cost_usd.value + 1e-9, 0.10)) < 1e-6); /* whole hours */
    assert_string_equal(cheap->command, "");
    assert_contains(offer_of(&a, "two")->excluded, "collective_busbw");
    assert_contains(offer_of(&a, "odd")->excluded, "does not state");
    assert_true(isnan(offer_of(&a, "odd")->cost_usd.value));
    assert_true(a.recommended == 0 && strcmp(a.offers[0].name, "cheap") == 0);
    assert_true(a.has_here);
    assert_true(isnan(a.here.cost_usd.value));
    assert_string_equal(a.here.machine, "rtx-3090");
    assert_contains(a.recommendation, " rtx-3090: "); /* a data sheet is not this machine */
    double span = log(cheap->wall_clock_s.high / cheap->wall_clock_s.low);
    sg_plan_clear(&a);
    (void)snprintf(here.fitted_from, sizeof here.fitted_from, "a fit");
    r.interval = 0.5;
    plan(&r, &a);
    assert_contains(a.recommendation, "This machine: ");
    cheap = offer_of(&a, "cheap");
    assert_true(log(cheap->wall_clock_s.high / cheap->wall_clock_s.low) < 0.7 * span);
    sg_plan_clear(&a);
    (void)unlink(path);
    (void)unlink(sheet);
    sg_machine_clear(&here);
}

/* ---- offers files -------------------------------------------------------------------------------------------------- */

#define COLUMNS "provider,name,gpu,machine,gpus,vcpus,ram_gb,usd_per_hour,billing,price_date,source\n"
#define ROW     "P,n,G,t4,1,4,15,0.4,minute,2026-08-22,s\n"

static void offers_fail(const char *text, const char *says) {
    sg_offers offers = {0};
    sg_status status = {0};
    assert_int_equal(sg_offers_parse("o.csv", text, strlen(text), &offers, &status), SG_BAD_INPUT);
    assert_contains(status.text, "o.csv");
    assert_contains(status.text, says);
    sg_offers_clear(&offers);
}

static void test_offers(void **state) {
    (void)state;
    sg_offers offers = {0};
    const char *good = COLUMNS ROW "\"P, Inc.\",m,G,l4,4,48,186,3.8,hour,2026-08-22,\"a, b\"\r\n";
    assert_int_equal(sg_offers_parse("o.csv", good, strlen(good), &offers, NULL), SG_OK);
    assert_int_equal(offers.count, 2);
    assert_string_equal(offers.offer[1].provider, "P, Inc.");
    assert_int_equal(offers.offer[1].gpus, 4);
    assert_true(offers.offer[1].billing_quantum_s == 3600 && offers.offer[0].billing_quantum_s == 60);
    assert_true(offers.offer[0].ram_bytes == 15e9);
    sg_offers_clear(&offers);
    offers_fail("", "empty");
    offers_fail("provider,name\n", "\"gpu\": is missing");
    offers_fail("provder,name\n", "did you mean \"provider\"");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,0.4,minute,2026-08-22\n", "row 2, row \"\": fewer fields");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,0.4,minute,2026-08-22,s,x\n", "more fields");
    offers_fail(COLUMNS "P,n,G,t4,0,4,15,0.4,minute,2026-08-22,s\n", "row 2, gpus \"0\"");
    offers_fail(COLUMNS "P,n,G,t4,1.5,4,15,0.4,minute,2026-08-22,s\n", "whole number");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,nan,minute,2026-08-22,s\n", "usd_per_hour \"nan\"");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,-1,minute,2026-08-22,s\n", "usd_per_hour \"-1\"");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,0.4,day,2026-08-22,s\n", "billing \"day\"");
    offers_fail(COLUMNS "P,n,G,t4,1,4,15,0.4,minute,22.8.2026,s\n", "YYYY-MM-DD");
    offers_fail(COLUMNS ",n,G,t4,1,4,15,0.4,minute,2026-08-22,s\n", "must not be empty");
    offers_fail(COLUMNS ROW "P,\"n", "row 3");
}

/* Every shipped offer stands for a machine that exists. */
static void test_shipped_offers(void **state) {
    (void)state;
    sg_offers offers;
    sg_status status;
    if (sg_offers_read(NULL, CONFIGS, &offers, &status)) fail_msg("%s", status.text);
    assert_true(offers.count >= 22);
    for (size_t i = 0; i < offers.count; i++) {
        sg_machine m;
        if (sg_machine_load(offers.offer[i].machine, CONFIGS, &m, &status)) fail_msg("%s", status.text);
        sg_machine_clear(&m);
    }
    sg_offers_clear(&offers);
}

static void test_durations(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.2, "0.2 s"},        {38, "38 s"},         {125, "2 min"},        {3600, "1 h 00 min"},
                 {12000, "3 h 20 min"}, {180000, "2.1 days"}, {INFINITY, "for ever"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        sg_plan_duration(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_loader),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_wall_clock_parts),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_budget_and_deadline),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_here_and_own_offers),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_shipped_offers),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_commands_of_pi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
