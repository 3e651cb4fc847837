/* episodes_file.h: LeRobot v2.x's meta/episodes.jsonl: {"episode_index": 0, "tasks": ["..."], "length": 303} per line. */
#ifndef SG_DATASETS_CATALOGUE_EPISODES_FILE_H
#define SG_DATASETS_CATALOGUE_EPISODES_FILE_H

#include "kernels/status.h"

#include <stddef.h>
#include <stdint.h>

/* Lengths by episode_index, *n of them, free'd by the caller. SG_BAD_INPUT names the line: no JSON, a key that is missing, an
 * index that is there twice or beyond the number of lines, a length below 1 or above 10^12; or that there is no such file. */
sg_code sg_episodes_file_read(const char *path, int64_t **lengths, size_t *n, sg_status *status);

#endif
