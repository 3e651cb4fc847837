/* Hostile bytes as a Parquet file: every column of some rows, then as the table of a data set that a reader takes samples of.
 * Without carquet there is nothing to fuzz. */
#include "datasets/reader/reader.h"
#include "datasets/tables/tables.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 6, DIM = 2, COLUMNS = 20 };

static char folder[64], table_path[128];
static sg_catalogue *catalogue;
static bool begun;

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "w");
    if (!file || (size > 0 && fwrite(data, 1, size, file) != size) || fclose(file) != 0) abort();
}

static void write_text(const char *inner, const char *text) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, inner);
    write_file(path, text, strlen(text));
}

static void make_folder(const char *inner) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, inner);
    (void)mkdir(path, 0700);
}

/* A data set of one episode without cameras. */
static void begin(void) {
    char why[256];
    begun = true;
    if (!sg_tables_possible(why, sizeof why)) return;
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-fuzz-tables-%d", (int)getpid());
    (void)mkdir(folder, 0700);
    make_folder("meta");
    make_folder("data");
    make_folder("data/chunk-000");
    write_text("meta/info.json", "{\"codebase_version\": \"v2.1\", \"total_frames\": 6, \"fps\": 10, \"features\": {"
                                 "\"observation.state\": {\"dtype\": \"float32\", \"shape\": [2]},"
                                 "\"action\": {\"dtype\": \"float32\", \"shape\": [2]}}}");
    write_text("meta/episodes.jsonl", "{\"episode_index\": 0, \"length\": 6}\n");
    (void)snprintf(table_path, sizeof table_path, "%s/data/chunk-000/episode_000000.parquet", folder);
    write_file(table_path, "", 0);
    sg_status status;
    if (sg_catalogue_open(folder, &catalogue, &status) != SG_OK) abort();
}

static void ask(sg_table *table) {
    double numbers[4];
    char text[64];
    int64_t rows = sg_table_rows(table);
    for (int column = -1; column < COLUMNS; column++)
        for (int64_t row = 0; row <= rows; row += 1 + rows / 4) {
            const uint8_t *bytes = NULL;
            size_t n = 0;
            sg_status status;
            volatile uint8_t last = 0;
            (void)sg_table_numbers(table, column, row, numbers, 4, &n, &status);
            if (sg_table_bytes(table, column, row, &bytes, &n, &status) == SG_OK && n) last = bytes[n - 1];
            (void)last;
            (void)sg_table_image_path(table, column, row, text, sizeof text, &status);
            if (!memchr(text, 0, sizeof text)) abort();
        }
}

static void read_samples(void) {
    float state[DIM], action[3 * DIM];
    const sg_reader_options options = {.action_rows = 3};
    const sg_sample sample = {.state = state, .action = action};
    sg_read_cost cost = {0};
    sg_reader *reader;
    sg_status status;
    if (sg_reader_open(catalogue, &options, &reader, &status) != SG_OK) return;
    for (int64_t frame = 0; frame < ROWS; frame++) (void)sg_reader_sample(reader, frame, &sample, &cost, &status);
    sg_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!begun) begin();
    if (!catalogue) return 0;
    sg_table *table;
    sg_status status;
    write_file(table_path, data, size);
    if (sg_table_open(table_path, &table, &status) == SG_OK) {
        ask(table);
        sg_table_close(table);
    }
    read_samples();
    return 0;
}
