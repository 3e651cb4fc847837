/* host_state.h: what the operating system says of this process and of its processors, before and after a measurement. */
#ifndef SG_SIM_MEASURE_HOST_STATE_H
#define SG_SIM_MEASURE_HOST_STATE_H

#include <stddef.h>
#include <stdint.h>

typedef struct sg_host_state {
    double at_s;             /* monotonic clock */
    double busy_s, stolen_s; /* of the processors that this process may use, all processes; < 0: unknown */
    double own_s;            /* processor time of this process */
    int64_t preemptions;     /* involuntary context switches of this process */
    double throttled_s;      /* waited because the control group's quota was used up; 0 where there is none */
    double clock_mhz;        /* mean over all processors; 0: unknown */
    double load_average;     /* 1 minute; < 0: unknown */
    int processors;          /* that this process may use */
} sg_host_state;

void sg_host_state_read(sg_host_state *state);

/* What was not this program's between two states. */
typedef struct sg_host_others {
    double
        processors; /* that other processes kept busy, on average; where only the load average is known: it less ours */
    double
        withheld_share; /* of the processors' time: given away by the hypervisor, or beyond a control group's quota */
} sg_host_others;
sg_host_others sg_host_others_between(const sg_host_state *before, const sg_host_state *after, int own_processes);

/* Why a measurement between two states is suspect: others on the processors, stolen time, quota, clock. Appends sentences
 * separated by "; " and returns how many. `own_processes` processes like this one took part (ranks of one host). */
int sg_host_state_compare(const sg_host_state *before, const sg_host_state *after, int own_processes, char *why,
                          size_t bytes);

/* Bytes that this process could still take without swapping or being killed; 0: unknown. */
uint64_t sg_host_available_bytes(void);
/* Resident bytes of this process at most since the last reset (or ever, where the kernel does not allow a reset). */
uint64_t sg_host_peak_resident_bytes(void);
void sg_host_reset_peak_resident(void);
/* Processors in the affinity mask, >= 1. */
int sg_host_processors(void);

#endif
