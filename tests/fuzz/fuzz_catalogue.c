/* Hostile bytes as a LeRobot data set's metadata: meta/info.json, then from the first NUL on meta/episodes.jsonl. */
#include "datasets/catalogue/catalogue.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *path, const uint8_t *data, size_t size) {
    FILE *file = fopen(path, "w");
    if (!file || (size > 0 && fwrite(data, 1, size, file) != size) || fclose(file) != 0) abort();
}

/* What may be asked of a catalogue that was opened. */
static void ask(const sg_catalogue *catalogue) {
    char text[256];
    sg_catalogue_describe(catalogue, text, sizeof text);
    if (!memchr(text, 0, sizeof text)) abort();
    int64_t frames = catalogue->first_frame[catalogue->n_episodes];
    for (int64_t frame = 0; frame < frames; frame += 1 + frames / 8) {
        int64_t episode = sg_catalogue_episode(catalogue, frame);
        if (episode < 0 || catalogue->first_frame[episode] > frame) abort();
        sg_frame_place place;
        sg_status status;
        for (size_t c = 0; c < catalogue->n_cameras; c++)
            (void)sg_catalogue_place(catalogue, c, episode, frame - catalogue->first_frame[episode], &place, &status);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[64], path[96];
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-fuzz-%d", (int)getpid());
    (void)mkdir(folder, 0700);
    (void)snprintf(path, sizeof path, "%s/meta", folder);
    (void)mkdir(path, 0700);
    const uint8_t *second = size ? memchr(data, 0, size) : NULL;
    size_t first = second ? (size_t)(second - data) : size;
    (void)snprintf(path, sizeof path, "%s/meta/info.json", folder);
    write_file(path, data, first);
    (void)snprintf(path, sizeof path, "%s/meta/episodes.jsonl", folder);
    write_file(path, second ? second + 1 : NULL, second ? size - first - 1 : 0);
    sg_catalogue *catalogue;
    sg_status status;
    if (sg_catalogue_open(folder, &catalogue, &status) == SG_OK) {
        ask(catalogue);
        sg_catalogue_close(catalogue);
    }
    return 0;
}
