/* report_text.h: what a sentence about a training states: words, numbers with their unit, sizes, durations.
 *
 * Texts are folded first: lower case, "×" as 'x', dashes as '-', every other character beyond ASCII and every control
 * character as a blank, so that one form is searched. Functions take folded texts and never fail: what a text does not
 * state is not found. */
#ifndef SG_CALIBRATION_REPORT_TEXT_H
#define SG_CALIBRATION_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Folds `text`, cut to bytes - 1 characters. */
void sg_report_fold(const char *text, char *folded, size_t bytes);

/* The phrase as whole words ("act" is not in "action"); NULL: absent. Blank, '_' and '-' in the phrase match each other. */
const char *sg_report_find(const char *folded, const char *phrase);

/* 1: the option is stated; -1: stated as off ("no X", "without X", "X=false", "X off"); 0: not mentioned. */
int sg_report_option(const char *folded, const char *phrase);

/* A number with decimals, thousands marked by 'k' or 'm' directly behind it when `suffixes` is set, at the start of text.
 * *end behind it. False: no number. */
bool sg_report_number(const char *text, bool suffixes, double *value, const char **end);

/* Number directly in front of one of the n unit words ("2 cameras", "2.78 step/s", "4 aloha cameras": one word may lie
 * between); words "one" to "four" count. The first that is found. */
bool sg_report_number_before(const char *folded, const char *const *units, size_t n, double *value);
/* Number behind a word: "chunk 50", "mem_gb 3.73", "batch size: 8", "n_obs_steps=2". */
bool sg_report_number_after(const char *folded, const char *phrase, double *value);

/* The largest image size stated that is no target of a resize ("640x480", "1920x1080"): width is the larger unless the text
 * names it "240x320" style with a smaller first number, which is height x width in this field's habits. Square sizes as they
 * are. False: none. *cropped: a crop is said to lead to it. */
bool sg_report_image_size(const char *folded, int *height, int *width, bool *cropped);

/* "1 h 50 m 25 s", "16m17s", "180 min", "9:36:02", "~2 days", "2-4 h" (range: *low and *high differ). Seconds. False: no
 * duration at the start, behind marks such as '~'. */
bool sg_report_duration(const char *folded, double *low, double *high);

/* A cell that is one number or a range "0.379-0.435", with '~' or not; open claims (">20", "<3") are none. */
bool sg_report_range(const char *folded, double *low, double *high);

#endif
