#include "datasets/catalogue/image_header.h"

#include <stdio.h>
#include <string.h>

static int64_t big_endian(const uint8_t *p, int bytes) {
    int64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | p[i];
    return value;
}

/* PNG (ISO/IEC 15948, 5.2 and 11.2.2): signature, then the chunk IHDR with width and height first. */
static bool png(const uint8_t *p, size_t n, sg_image_header *header) {
    static const uint8_t begins[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    if (n < sizeof begins + 8 || memcmp(p, begins, sizeof begins) != 0) return false;
    header->width = big_endian(p + 16, 4);
    header->height = big_endian(p + 20, 4);
    (void)snprintf(header->codec, sizeof header->codec, "png");
    return true;
}

/* Start of a frame: all of C0 to CF but DHT, JPG and DAC. */
static bool is_frame(uint8_t marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* JPEG (ITU-T T.81, B.1 and B.2.2): segments with their lengths up to the start of the frame. */
static bool jpeg(const uint8_t *p, size_t n, sg_image_header *header) {
    if (n < 4 || p[0] != 0xff || p[1] != 0xd8) return false;
    size_t at = 2;
    while (at + 9 <= n && p[at] == 0xff) {
        uint8_t marker = p[at + 1];
        if (marker == 0xff) { /* filling */
            at++;
            continue;
        }
        if (is_frame(marker)) {
            header->height = big_endian(p + at + 5, 2);
            header->width = big_endian(p + at + 7, 2);
            (void)snprintf(header->codec, sizeof header->codec, "jpeg");
            return true;
        }
        bool alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
        if (marker == 0xd9 || marker == 0xda) return false;
        at += alone ? 2 : 2 + (size_t)big_endian(p + at + 2, 2);
    }
    return false;
}

bool sg_image_header_read(const uint8_t *bytes, size_t n, sg_image_header *header) {
    memset(header, 0, sizeof *header);
    return (png(bytes, n, header) || jpeg(bytes, n, header)) && header->height > 0 && header->width > 0;
}
