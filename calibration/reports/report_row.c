#include "calibration/reports/report_row.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/reports/report_text.h"

static void SG_PRINTF(2, 3) reason(char *into, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!into[0]) (void)vsnprintf(into, SG_REPORT_REASON, format, args); /* the first thing missing is the one to say */
    va_end(args);
}

static bool says(const char *folded, const char *const *phrases, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (sg_report_find(folded, phrases[i])) return true;
    return false;
}
#define SAYS(folded, ...)                                                                                              \
    says((folded), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- settings ------------------------------------------------------------------------------------------------------ */

static const sg_key *key_of(const sg_family *family, const char *name) {
    for (size_t i = 0; family && i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, name) == 0) return &family->keys[i];
    return NULL;
}

void sg_report_row_bind(sg_report_row *row) {
    for (size_t i = 0; i < row->n_settings; i++) row->settings[i] = (sg_setting){row->key[i], row->value[i], "report"};
    row->request.policy = row->policy;
    row->request.precision = row->precision[0] ? row->precision : NULL;
    row->request.settings = row->settings;
    row->request.n_settings = row->n_settings;
}

bool sg_report_row_set(sg_report_row *row, const char *key, const char *value) {
    size_t at = 0;
    if (!key_of(sg_family_find(row->policy), key) || strlen(value) >= sizeof row->value[0]) return false;
    while (at < row->n_settings && strcmp(row->key[at], key) != 0) at++;
    if (at == SG_REPORT_SETTINGS) return false;
    if (at == row->n_settings) row->n_settings++;
    (void)snprintf(row->key[at], sizeof row->key[at], "%s", key);
    (void)snprintf(row->value[at], sizeof row->value[at], "%s", value);
    sg_report_row_bind(row);
    return true;
}

static bool set_int(sg_report_row *row, const char *key, double value) {
    char text[24];
    if (!(value >= 0 && value < 1e9 && value == floor(value))) return false;
    (void)snprintf(text, sizeof text, "%.0f", value);
    return sg_report_row_set(row, key, text);
}

/* "freeze_vision_encoder=false": whatever is a key of the family, in its own spelling. */
static void take_assignments(sg_report_row *row) {
    for (const char *equals = strchr(row->details, '='); equals; equals = strchr(equals + 1, '=')) {
        const char *from = equals, *to = equals + 1;
        while (from > row->details && (isalnum((unsigned char)from[-1]) || from[-1] == '_')) from--;
        while (isalnum((unsigned char)*to) || (*to == '.' && isalnum((unsigned char)to[1]))) to++;
        char key[sizeof row->key[0]], value[sizeof row->value[0]];
        if (equals - from >= (long)sizeof key || to - equals > (long)sizeof value || to == equals + 1) continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)(equals - from), from);
        (void)snprintf(value, sizeof value, "%.*s", (int)(to - equals - 1), equals + 1);
        (void)sg_report_row_set(row, key, value);
    }
}

/* ---- policy -------------------------------------------------------------------------------------------------------- */

static void take_policy(sg_report_row *row, const char *folded) {
    char name[sizeof row->policy];
    size_t n = strcspn(folded, " (");
    (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), folded);
    if (!folded[0] || folded[0] == '(')
        reason(row->no_training, "no training of a policy: %.60s", folded[0] ? folded : "the policy is not stated");
    else if (strcmp(name, "ppo") == 0)
        reason(row->no_training, "PPO: what an environment step of this simulator costs is not stated");
    else if (strchr(folded, '/') && !strchr(name, '('))
        reason(row->no_training, "several policies in one row: %.60s", folded);
    else if (!sg_family_find(name))
        reason(row->no_training, "policy not supported: %.60s", folded);
    else
        (void)snprintf(row->policy, sizeof row->policy, "%s", name);
}

/* Frameworks whose step is another program than ours. */
static void check_framework(sg_report_row *row) {
    static const char *const others[] = {"jax",  "flax",      "openpi",    "original", "hf trainer",
                                         "fsdp", "deepspeed", "isaac lab", "mlx",      "tensorflow"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sg_report_find(row->framework, others[i]) || (i < 2 && sg_report_find(row->details, others[i])))
            reason(row->no_training, "another framework: %.80s", row->framework);
    if (SAYS(row->details, "lora", "peft")) reason(row->no_training, "low-rank adapters are not supported");
    if (SAYS(row->details, "ki on", "knowledge insulation"))
        reason(row->no_training, "trained with another objective than the policy's own");
    if (SAYS(row->details, "fsdp")) reason(row->no_training, "sharded training: how is not stated");
}

/* ---- cameras and sizes --------------------------------------------------------------------------------------------- */

/* Public data sets: cameras (0: differs by recording), frame, dimensions of state and action. Sources: their meta/info.json
 * on the Hub; SO-100, SO-101 and Koch arms record 480x640 with any number of cameras. */
typedef struct data_set {
    const char *name;
    int cameras, height, width, state, action;
} data_set;
static const data_set data_sets[] = {
    {"pusht", 1, 96, 96, 2, 2},
    {"aloha_sim", 1, 480, 640, 14, 14},
    {"alohainsertion", 1, 480, 640, 14, 14},
    {"alohatransfercube", 1, 480, 640, 14, 14},
    {"libero", 2, 256, 256, 8, 7},
    {"xarm", 1, 84, 84, 4, 4},
    {"aloha_static", 4, 480, 640, 14, 14},
    {"so101", 0, 480, 640, 6, 6},
    {"so 101", 0, 480, 640, 6, 6},
    {"so100", 0, 480, 640, 6, 6},
    {"so 100", 0, 480, 640, 6, 6},
    {"koch", 0, 480, 640, 6, 6},
};

/* The name as a word, or as the start of one ("so101" in "so101_screwdriver", "aloha_sim_insertion"). */
static const data_set *data_set_of(const char *folded) {
    for (size_t i = 0; i < sizeof data_sets / sizeof *data_sets; i++)
        if (sg_report_find(folded, data_sets[i].name)) return &data_sets[i];
    return NULL;
}

static bool resizes_itself(const char *policy) {
    return strcmp(policy, "smolvla") == 0 || strncmp(policy, "pi0", 3) == 0;
}

static void take_cameras(sg_report_row *row) {
    static const char *const units[] = {"cameras", "camera", "cams", "cam", "views"};
    const data_set *known = data_set_of(row->details);
    double cameras = 0;
    int height = 0, width = 0;
    bool cropped = false;
    if (!sg_report_number_before(row->details, units, sizeof units / sizeof *units, &cameras) && known)
        cameras = known->cameras;
    bool sized = sg_report_image_size(row->details, &height, &width, &cropped);
    if (!sized && known) height = known->height, width = known->width;
    if (known) {
        (void)set_int(row, "state_dim", known->state);
        (void)set_int(row, "action_dim", known->action);
    }
    row->named_sizes = key_of(sg_family_find(row->policy), "cameras") != NULL;
    row->cameras_known = cameras > 0;
    row->size_known = height > 0 || resizes_itself(row->policy);
    if (cameras > 0) (void)set_int(row, "cameras", cameras);
    if (height > 0) {
        (void)set_int(row, "image_height", height);
        (void)set_int(row, "image_width", width);
    }
}

/* ---- options ------------------------------------------------------------------------------------------------------- */

/* Instructions of 8 to 48 tokens (SmolVLA pads to the longest of a batch): the middle, in logarithms. */
static const double USUAL_TOKENS = 20;

/* Before 2026-07-31, and in releases up to 0.6.0, use_amp had no effect on LeRobot's training. */
static bool amp_works(const sg_report_row *row, const char *date) {
    const char *release = sg_report_find(row->framework, "lerobot 0.");
    double number;
    const char *end;
    if (release && sg_report_number(release + strlen("lerobot 0."), false, &number, &end))
        if (number < 6.05) return false; /* "0.6.0": the number ends before the second dot or with its zero */
    return strcmp(date, "2026-07-31") >= 0;
}

/* LeRobot trains its fp32 policies with TF32 products and convolutions. */
static void take_precision(sg_report_row *row, const char *date) {
    const char *d = row->details;
    bool bf16 = SAYS(d, "bf16", "bfloat16");
    bool pi = strncmp(row->policy, "pi0", 3) == 0;
    if (pi) {
        if (bf16)
            (void)snprintf(row->precision, sizeof row->precision, "bf16");
        else if (!SAYS(d, "fp32", "float32"))
            reason(row->no_training, "its weights may be fp32 or bf16: not stated");
        return;
    }
    if (strcmp(row->policy, "smolvla") == 0) return;
    if (sg_report_option(d, "tf32") < 0)
        reason(row->no_training, "TF32 switched off: convolutions in plain fp32 are not offered");
    bool amp = sg_report_option(d, "use_amp") > 0 && amp_works(row, date);
    const sg_family *family = sg_family_find(row->policy);
    if (sg_report_option(d, "fp16") > 0)
        (void)snprintf(row->precision, sizeof row->precision, "fp16");
    else if ((bf16 && sg_report_option(d, "bf16") > 0) || amp)
        (void)snprintf(row->precision, sizeof row->precision, "bf16");
    else if (family && strcmp(family->default_precision, "fp32") == 0)
        (void)snprintf(row->precision, sizeof row->precision, "tf32");
}

static void take_options(sg_report_row *row) {
    const char *d = row->details;
    double number;
    if (sg_report_number_after(d, "chunk", &number) || sg_report_number_after(d, "chunk_size", &number))
        (void)set_int(row, "chunk_size", number);
    if (sg_report_number_after(d, "horizon", &number)) (void)set_int(row, "horizon", number);
    if (!sg_report_number_after(d, "language tokens", &number)) number = USUAL_TOKENS;
    if (strcmp(row->policy, "smolvla") == 0) (void)set_int(row, "language_tokens", number);
    if (sg_report_option(d, "vae") < 0) (void)sg_report_row_set(row, "use_vae", "false");
    if (SAYS(d, "resnet34")) (void)sg_report_row_set(row, "vision_backbone", "resnet34");
    if (sg_report_option(d, "use_group_norm") > 0 || sg_report_option(d, "groupnorm") > 0)
        (void)sg_report_row_set(row, "use_group_norm", "true");
    if (SAYS(d, "sgd") && !sg_report_row_set(row, "optimizer", "sgd"))
        reason(row->no_training, "optimizer SGD of %s is not supported", row->policy);
    if (sg_report_option(d, "unfrozen") > 0) {
        (void)sg_report_row_set(row, "freeze_vision_encoder", "false");
        (void)sg_report_row_set(row, "train_expert_only", "false");
    }
    if (sg_report_option(d, "expert only") > 0) (void)sg_report_row_set(row, "train_expert_only", "true");
    row->checkpointed = sg_report_option(d, "gradient checkpointing") > 0 ||
                        sg_report_option(d, "gradient_checkpointing") > 0 ||
                        sg_report_option(d, "activation checkpointing") > 0;
    if (row->checkpointed && !sg_report_row_set(row, "gradient_checkpointing", "true"))
        reason(row->no_training, "gradient checkpointing of %s is not supported", row->policy);
    row->graphs = SAYS(d, "cuda graphs", "reduce-overhead");
    int model = sg_report_option(d, "compile_model"); /* LeRobot's switch decides where it is named */
    row->compiled = row->graphs || model > 0 ||
                    (model == 0 && (sg_report_option(d, "compile") > 0 || sg_report_option(d, "compiled") > 0));
}

/* The profile by its name, which a build may have or not. */
static void take_framework(sg_report_row *row) {
    const char *wanted = row->graphs ? "pytorch-cuda-graphs" : row->compiled ? "pytorch-compiled" : "pytorch-eager";
    for (int f = 0; f < SG_FRAMEWORK_COUNT; f++)
        if (strcmp(sg_framework_name((sg_framework)f), wanted) == 0) {
            row->request.framework = (sg_framework)f;
            return;
        }
    reason(row->no_training, "no profile of %s", wanted);
}

static double parameters_before(const char *folded, const char *const *units, size_t n) {
    double value = 0;
    return sg_report_number_before(folded, units, n, &value) && value >= 1e6 ? value : 0;
}

static void take_counts(sg_report_row *row) {
    static const char *const all[] = {"params", "parameters"}, *const some[] = {"trainable", "learnable"};
    row->trainable = parameters_before(row->details, some, 2);
    row->parameters = parameters_before(row->details, all, 2);
    if (row->trainable > 0 && row->parameters == row->trainable) row->parameters = 0;
}

/* ---- machine ------------------------------------------------------------------------------------------------------- */

static void take_machine(sg_report_row *row) {
    static const char *const unit[] = {"gb"};
    const char *h = row->hardware;
    double gb = 0;
    row->device_class = SAYS(h, "mps", "apple", "mac") ? "mps" : "cuda";
    row->unified =
        strcmp(row->device_class, "mps") == 0 || SAYS(h, "unified", "jetson", "spark", "gb10", "orin", "thor");
    const char *slash = strchr(h, '/');
    if (!h[0])
        reason(row->no_machine, "the GPU is not stated");
    else if (SAYS(h, "xpu", "intel", "tpu", "ascend", "npu"))
        reason(row->no_machine, "no GPU of a kind that has data sheets here: %.60s", h);
    else if (slash && strpbrk(slash, "0123456789"))
        reason(row->no_machine, "several GPUs in one row: %.60s", h);
    else if (SAYS(h, "mig"))
        reason(row->no_machine, "a slice of a GPU: %.60s", h);
    /* "80gb" is one word, "80 gb" two */
    for (const char *at = h; *at; at++) {
        const char *end;
        if (!isdigit((unsigned char)*at) || (at > h && isalnum((unsigned char)at[-1]))) continue;
        if (sg_report_number(at, false, &gb, &end) && strncmp(end, "gb", 2) == 0 && !isalnum((unsigned char)end[2]))
            break;
        gb = 0;
    }
    if (gb == 0 && !sg_report_number_before(h, unit, 1, &gb)) gb = 0;
    if (gb >= 1 && gb <= 4096) row->memory_bytes = (uint64_t)(gb * 0x1p30);
}

static int whole(const char *folded, double most) {
    double value;
    return sg_report_number(folded, false, &value, NULL) && value >= 1 && value <= most && value == floor(value)
               ? (int)value
               : 0;
}

static void take_batch(sg_report_row *row, const char *batch, const char *gpus) {
    row->ranks = whole(gpus, 1 << 16);
    if (row->ranks == 0) row->ranks = 1;
    int b = whole(batch, 1 << 20);
    if (sg_report_find(batch, "global")) b = b % row->ranks == 0 ? b / row->ranks : 0;
    row->request.batch = b;
}

void sg_report_row_read(const sg_csv_table *t, size_t index, sg_report_row *row) {
    char policy[SG_REPORT_TEXT], part[SG_REPORT_TEXT], gpus[64], batch[64], date[16];
    memset(row, 0, sizeof *row);
    sg_report_fold(sg_csv_table_text(t, index, "policy"), policy, sizeof policy);
    sg_report_fold(sg_csv_table_text(t, index, "policy_details"), part, sizeof part);
    char data[SG_REPORT_TEXT];
    sg_report_fold(sg_csv_table_text(t, index, "dataset"), data, sizeof data);
    (void)snprintf(row->id, sizeof row->id, "%.60s", sg_csv_table_text(t, index, "id"));
    if (!row->id[0]) (void)snprintf(row->id, sizeof row->id, "line %zu", index + 2);
    /* what the policy's name says in brackets is a detail: "act (PushT)" */
    (void)snprintf(row->details, sizeof row->details, "%s; %s; %s", part,
                   strchr(policy, '(') ? strchr(policy, '(') : "", data);
    sg_report_fold(sg_csv_table_text(t, index, "hardware"), row->hardware, sizeof row->hardware);
    sg_report_fold(sg_csv_table_text(t, index, "note"), row->note, sizeof row->note);
    sg_report_fold(sg_csv_table_text(t, index, "framework"), row->framework, sizeof row->framework);
    sg_report_fold(sg_csv_table_text(t, index, "gpu_count"), gpus, sizeof gpus);
    sg_report_fold(sg_csv_table_text(t, index, "batch_per_gpu"), batch, sizeof batch);
    sg_report_fold(sg_csv_table_text(t, index, "date"), date, sizeof date);
    take_policy(row, policy);
    take_machine(row);
    check_framework(row);
    take_batch(row, batch, gpus);
    if (row->policy[0]) {
        take_options(row);
        take_precision(row, date);
        take_cameras(row);
        take_assignments(row);
        take_framework(row);
        take_counts(row);
    }
    sg_report_row_bind(row);
    sg_report_figures_read(t, index, row);
}
