/* Any text as an offers file: it is read or the error says where. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "calibration/plan/offers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sg_offers offers = {0};
    sg_status status;
    if (sg_offers_parse("fuzz.csv", (const char *)data, size, &offers, &status) == SG_OK)
        for (size_t i = 0; i < offers.count; i++)
            if (offers.offer[i].gpus < 1 || !(offers.offer[i].usd_per_hour >= 0)) abort();
    sg_offers_clear(&offers);
    return 0;
}
