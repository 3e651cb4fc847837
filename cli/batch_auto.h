/* batch_auto.h: `--batch auto`: the largest batch that fits. */
#ifndef SG_CLI_BATCH_AUTO_H
#define SG_CLI_BATCH_AUTO_H

#include "cli/device_choice.h"
#include "cli/world.h"

/* The largest batch whose memory, as the framework's allocator would take it, fits into what is free where each rank is;
 * the same on every rank. It does not know the device's own workspaces: when measuring it runs out of memory, the next
 * smaller one to try is sg_batch_below. SG_NO: not even batch 1 fits. */
sg_code sg_batch_auto(const sg_device_choice *choice, const sg_args *args, sg_world *world,
                      const sg_policy_request *policy, int64_t *batch, sg_status *status);
int64_t sg_batch_below(int64_t batch);

#endif
