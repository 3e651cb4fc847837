/* policy.h: from a policy's name and options to a training. */
#ifndef SG_MODELS_POLICY_H
#define SG_MODELS_POLICY_H

#include "models/training.h"

/* Lowering profile: structure half of a framework (the numbers half is configs/frameworks/). */
typedef enum sg_framework {
    SG_FRAMEWORK_PYTORCH_EAGER,
    SG_FRAMEWORK_NATIVE,
    SG_FRAMEWORK_PYTORCH_COMPILED,    /* torch.compile of the policy; optimizer and exchange as in eager mode */
    SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS, /* eager mode's kernels, the update captured and replayed */
    SG_FRAMEWORK_JAX,                 /* the whole step compiled and dispatched as one */
    SG_FRAMEWORK_COUNT
} sg_framework;
typedef enum sg_device_class { SG_DEVICE_CLASS_CUDA, SG_DEVICE_CLASS_CPU } sg_device_class;

/* "pytorch-eager", "native", "pytorch-compiled", "pytorch-cuda-graphs", "jax" */
const char *sg_framework_name(sg_framework framework);
/* The update is dispatched as one: captured and replayed, or compiled whole. */
bool sg_framework_captures(sg_framework framework);
/* This program's devices can run a step as the framework does; false: it can only be predicted. */
bool sg_framework_runs(sg_framework framework);

/* A configuration key of a policy; LeRobot's (or rsl_rl's) name where it has one. */
typedef enum sg_key_type { SG_KEY_INT, SG_KEY_REAL, SG_KEY_BOOL, SG_KEY_TEXT, SG_KEY_INT_LIST } sg_key_type;
typedef struct sg_key {
    const char *name;
    sg_key_type type;
    const char *default_text; /* as a user would write it: "512", "true", "512,256,128" */
    double low, high;         /* inclusive bounds of numbers (and of list members) */
    const char *choices;      /* SG_KEY_TEXT: "a|b|c", or NULL */
    const char *help;         /* one line, with the unit */
    const char *aliases;      /* other names that mean the same ("num_envs|n_envs"), or NULL */
} sg_key;

/* name = value as text, as given by --set, YAML or JSON; later settings win. */
typedef struct sg_setting {
    const char *name, *value, *origin; /* origin for messages: "--set", "policy.yaml:3:5" */
} sg_setting;

typedef struct sg_policy_request {
    const char *policy; /* a family's name: "act", "smolvla", "ppo", "bert" ... */
    sg_framework framework;
    sg_device_class device_class;
    int64_t batch;        /* samples per process and micro-step, >= 1; 0 = the policy's default (8). Refused for PPO. */
    int64_t accumulation; /* micro-steps, >= 1; 0 = 1 */
    int64_t ranks;        /* data-parallel processes, >= 1; 0 = 1: with more, gradient sync entries exist */
    const char *precision; /* "fp32", "tf32", "bf16", "fp16" (autocast), "bf16-pure", or NULL = the policy's own */
    const char *sharding;  /* "none", or "full": parameters, gradients and optimizer state over the ranks; NULL: none */
    const sg_setting *settings;
    size_t n_settings;
} sg_policy_request;

/* Builds and verifies. Errors name the key, its origin, what is allowed and the nearest known name. */
sg_code sg_policy_build(const sg_policy_request *request, sg_training **training, sg_status *status);

/* The name of the precision that a request is run in: what it asks for, else the policy's own: "tf32" where its trainer lets a GPU
 * form the products of an fp32 policy so. Asked for by this name it is the same program. NULL: no such policy. */
const char *sg_policy_precision(const sg_policy_request *request);

/* Table of families, for help and suggestions. */
typedef struct sg_family {
    const char *name, *summary;
    const sg_key *keys;
    size_t n_keys;
    int64_t default_batch;
    const char *default_precision;
} sg_family;
const sg_family *sg_families(size_t *count);
const sg_family *sg_family_find(const char *name);

#endif
