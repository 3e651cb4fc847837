/* wandb_csv.c: tables that W&B exports: all keys of one run in columns, or one key of several runs. */
#include "calibration/log/wandb.h"

#include <math.h>
#include <string.h>

void sg_wandb_csv_start(sg_wandb_csv *r, size_t run) {
    memset(r, 0, sizeof *r);
    r->selected = run;
    r->record = sg_wandb_none();
}

/* "train/update_s", or of a chart "run-name - train/update_s"; __MIN and __MAX beside it are no values. */
static const char *key_of(sg_wandb_csv *r) {
    char *dash = strstr(r->cell, " - ");
    if (!dash) return r->cell;
    *dash = '\0';
    size_t i = 0;
    while (i < r->runs && strcmp(r->run[i], r->cell) != 0) i++;
    if (i == r->runs && i < SG_WANDB_RUNS) memcpy(r->run[r->runs++], r->cell, sizeof r->run[0]);
    return i == r->selected ? dash + 3 : "";
}

/* A header may be any line with a key of training and a comma; other lines are not looked at further. */
static bool is_header(const sg_line *line) {
    if (!line->text[0] || !strchr("\"_St,e", line->text[0])) return false;
    return memmem(line->text, line->bytes, "train/", 6) && memchr(line->text, ',', line->bytes);
}

static void end_header_cell(sg_wandb_csv *r) {
    if (r->columns == SG_WANDB_COLUMNS) return;
    const char *key = key_of(r);
    r->place[r->columns++] = (signed char)sg_wandb_key(key, strlen(key));
}

static void end_cell(sg_wandb_csv *r) {
    r->cell[r->n] = '\0';
    if (r->reading_header)
        end_header_cell(r);
    else if (r->column < r->columns && r->place[r->column] >= 0)
        (void)sg_wandb_take(&r->record, r->place[r->column], r->cell, r->n);
    r->column++;
    r->n = 0;
}

static bool tells_times(const sg_wandb_csv *r) {
    for (size_t i = 0; i < r->columns; i++)
        if (sg_wandb_key_is_time(r->place[i])) return true;
    return false;
}

void sg_wandb_csv_close(sg_wandb_csv *r, sg_log_builder *b) {
    static const sg_line none = {"", 0, false};
    if (!r->row_open) return;
    end_cell(r);
    r->row_open = r->quoted = false;
    if (r->reading_header) {
        r->reading_header = false;
        r->header = tells_times(r);
        return;
    }
    (void)sg_wandb_emit(&r->record, b, false, &none);
    bool named = r->selected < r->runs && b->family == SG_LOG_WANDB;
    if (named) sg_log_copy_text(b->traits.run, sizeof b->traits.run, r->run[r->selected], strlen(r->run[r->selected]));
    r->record = sg_wandb_none();
}

static void feed(sg_wandb_csv *r, const sg_line *line) {
    for (size_t i = 0; i < line->bytes; i++) {
        char c = line->text[i];
        if (c == '"')
            r->quoted = !r->quoted;
        else if (c == ',' && !r->quoted)
            end_cell(r);
        else if (r->n + 1 < sizeof r->cell)
            r->cell[r->n++] = c;
    }
}

/* A row begins with a number, or with nothing, and a comma: lines of a console do not. */
static bool begins_as_row(const sg_line *line) {
    size_t i = 0;
    while (i < line->bytes && line->text[i] && strchr("0123456789.\"e+-", line->text[i])) i++;
    return i < line->bytes && line->text[i] == ',';
}

bool sg_wandb_csv_line(sg_wandb_csv *r, sg_log_builder *b, const sg_line *line) {
    if (!line->continues) {
        sg_wandb_csv_close(r, b);
        bool header = line->bytes && is_header(line);
        if (header) {
            r->reading_header = true;
            r->columns = 0;
            r->runs = 0;
        }
        r->row_alone = r->header && begins_as_row(line);
        r->row_open = line->bytes && (header || r->row_alone);
        r->column = r->n = 0;
    }
    if (r->row_open) feed(r, line);
    return r->row_alone;
}
