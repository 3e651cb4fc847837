/* wandb_json.c: objects of W&B's JSON exports, one a line or in a list, and of trainer_state.json. */
#include "calibration/log/wandb.h"

#include <string.h>

void sg_wandb_json_start(sg_wandb_json *r) {
    memset(r, 0, sizeof *r);
}

static void take(sg_wandb_json *r) {
    if (r->depth < 1 || r->depth > SG_WANDB_DEEPEST) return;
    int key = sg_wandb_key(r->key, r->key_n);
    if (key >= 0) (void)sg_wandb_take(&r->record[r->depth - 1], key, r->text, r->n);
}

static void end_number(sg_wandb_json *r) {
    if (!r->in_number) return;
    r->in_number = false;
    take(r);
    r->after_colon = false;
}

static void end_text(sg_wandb_json *r) {
    r->in_text = false;
    if (r->after_colon) {
        take(r); /* the Trainer writes some numbers as text */
        r->after_colon = false;
        return;
    }
    memcpy(r->key, r->text, r->n);
    r->key_n = r->n;
}

static void in_text(sg_wandb_json *r, char c) {
    if (r->escaped)
        r->escaped = false;
    else if (c == '\\')
        r->escaped = true;
    else if (c == '"')
        end_text(r);
    else if (r->n + 1 < sizeof r->text)
        r->text[r->n++] = c;
}

static void structure(sg_wandb_json *r, sg_log_builder *b, char c, const sg_line *line) {
    switch (c) {
    case '"':
        r->in_text = true;
        r->n = 0;
        break;
    case ':': r->after_colon = true; break;
    case ',': r->after_colon = false; break;
    case '{':
        r->after_colon = false;
        if (r->depth < SG_WANDB_DEEPEST) r->record[r->depth] = sg_wandb_none();
        r->depth++;
        break;
    case '}':
        r->after_colon = false;
        if (r->depth >= 1 && r->depth <= SG_WANDB_DEEPEST) (void)sg_wandb_emit(&r->record[r->depth - 1], b, true, line);
        if (r->depth) r->depth--;
        break;
    default:
        if (!r->after_colon || (c != '-' && (c < '0' || c > '9'))) break;
        r->in_number = true;
        r->text[0] = c;
        r->n = 1;
    }
}

/* How JSON begins, and not a log: {"key" or [{, possibly spread over lines. */
static bool is_json(const sg_line *line, size_t at) {
    char open = line->text[at++];
    while (at < line->bytes && (unsigned char)line->text[at] <= ' ') at++;
    if (at == line->bytes) return open == '{' || open == '[';
    return (open == '{' && line->text[at] == '"') || (open == '[' && line->text[at] == '{');
}

bool sg_wandb_json_line(sg_wandb_json *r, sg_log_builder *b, const sg_line *line) {
    size_t first = 0;
    while (first < line->bytes && (unsigned char)line->text[first] <= ' ') first++;
    if (first == line->bytes) return r->on;
    if (!r->decided) {
        r->decided = true;
        r->on = is_json(line, first);
    }
    if (!r->on) return false;
    for (size_t i = first; i < line->bytes; i++) {
        char c = line->text[i];
        if (r->in_text) {
            in_text(r, c);
            continue;
        }
        bool of_number = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
        if (r->in_number && of_number) {
            if (r->n + 1 < sizeof r->text) r->text[r->n++] = c;
            continue;
        }
        end_number(r);
        structure(r, b, c, line);
    }
    end_number(r);
    return line->continues || (line->text[first] && strchr("{}[]\",", line->text[first]));
}
