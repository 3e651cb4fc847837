/* offers.h: what can be rented, at which price: CSV files in configs/offers/ (columns: README.md there). */
#ifndef SG_CALIBRATION_PLAN_OFFERS_H
#define SG_CALIBRATION_PLAN_OFFERS_H

#include <stddef.h>

#include "kernels/status.h"

typedef struct sg_offer {
    char provider[48], name[48], gpu[64], machine[64], price_date[16], source[128];
    int gpus;
    double vcpus, ram_bytes;
    double usd_per_hour;      /* of the whole instance */
    double billing_quantum_s; /* a bill is rounded up to a multiple of this */
} sg_offer;

typedef struct sg_offers {
    sg_offer *offer;
    size_t count;
} sg_offers;

/* path: one CSV file; NULL: all *.csv in <config_dir>/offers. Every row is checked; errors name file, row and column. */
sg_code sg_offers_read(const char *path, const char *config_dir, sg_offers *offers, sg_status *status);
/* One file's text; `name` stands for the path in messages. Appends to *offers. */
sg_code sg_offers_parse(const char *name, const char *text, size_t bytes, sg_offers *offers, sg_status *status);
void sg_offers_clear(sg_offers *offers);

#endif
