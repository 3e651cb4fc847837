#include "cli/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32 };

struct sg_table {
    size_t columns, rows, room;
    char **cells; /* rows x columns, header first */
    bool failed;
};

sg_table *sg_table_new(size_t columns, const char *const *header) {
    if (columns > COLUMNS_MAX) return NULL;
    sg_table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    table->columns = columns;
    sg_table_row(table, header);
    return table;
}

void sg_table_row(sg_table *table, const char *const *cells) {
    if (!table) return;
    if (table->rows == table->room) {
        size_t room = table->room ? 2 * table->room : 16;
        char **grown = realloc(table->cells, room * table->columns * sizeof *grown);
        if (!grown) {
            table->failed = true;
            return;
        }
        table->cells = grown;
        table->room = room;
    }
    for (size_t c = 0; c < table->columns; c++) {
        char *copy = strdup(cells[c]);
        if (!copy) table->failed = true;
        table->cells[table->rows * table->columns + c] = copy;
    }
    table->rows++;
}

static size_t width_of(const sg_table *table, size_t column) {
    size_t width = 0;
    for (size_t r = 0; r < table->rows; r++) {
        const char *cell = table->cells[r * table->columns + column];
        size_t length = cell ? strlen(cell) : 0;
        if (length > width) width = length;
    }
    return width;
}

static void print_rows(const sg_table *table) {
    size_t width[COLUMNS_MAX];
    for (size_t c = 0; c < table->columns; c++) width[c] = width_of(table, c);
    for (size_t r = 0; r < table->rows; r++) {
        printf("  ");
        for (size_t c = 0; c < table->columns; c++) {
            const char *cell = table->cells[r * table->columns + c];
            if (c == 0)
                printf("%-*s", (int)width[c], cell ? cell : "");
            else
                printf("  %*s", (int)width[c], cell ? cell : "");
        }
        printf("\n");
    }
}

void sg_table_print(sg_table *table) {
    if (!table) {
        sg_show_warning("a table is left out: no memory");
        return;
    }
    print_rows(table);
    if (table->failed) sg_show_warning("rows are missing above: no memory");
    for (size_t i = 0; i < table->rows * table->columns; i++) free(table->cells[i]);
    free(table->cells);
    free(table);
}
