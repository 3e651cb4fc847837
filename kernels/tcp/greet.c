#include "kernels/tcp/greet.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* ---- SipHash-2-4 ------------------------------------------------------------------------------------------------------ */

static uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int n) {
    for (int i = 0; i < n; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

uint64_t sg_tcp_hash(const sg_tcp_key *key, const void *data, size_t bytes) {
    const unsigned char *at = data;
    /* the initial state spells "somepseudorandomlygeneratedbytes" */
    uint64_t v[4] = {key->half[0] ^ UINT64_C(0x736f6d6570736575), key->half[1] ^ UINT64_C(0x646f72616e646f6d),
                     key->half[0] ^ UINT64_C(0x6c7967656e657261), key->half[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word;
    size_t left = bytes;
    for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        absorb(v, word);
    }
    word = (uint64_t)bytes << 56;
    for (size_t i = 0; i < left; i++) word |= (uint64_t)at[i] << (8 * i);
    absorb(v, word);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- proofs ------------------------------------------------------------------------------------------------------------ */

sg_tcp_key sg_tcp_key_of(const char *secret) {
    const sg_tcp_key first = {{1, 0}}, second = {{2, 0}};
    size_t bytes = strlen(secret);
    return (sg_tcp_key){{sg_tcp_hash(&first, secret, bytes), sg_tcp_hash(&second, secret, bytes)}};
}

static uint64_t proof(const sg_tcp_key *key, uint64_t whose, const sg_tcp_hello *hello, const sg_tcp_reply *reply) {
    struct {
        uint64_t whose;
        sg_tcp_hello hello;
        sg_tcp_reply reply;
    } said = {whose, *hello, *reply};
    said.reply.proof = 0;
    return sg_tcp_hash(key, &said, sizeof said);
}

uint64_t sg_tcp_reply_proof(const sg_tcp_key *key, const sg_tcp_hello *hello, const sg_tcp_reply *reply) {
    return proof(key, 1, hello, reply);
}

uint64_t sg_tcp_answer_proof(const sg_tcp_key *key, const sg_tcp_hello *hello, const sg_tcp_reply *reply) {
    return proof(key, 2, hello, reply);
}

sg_code sg_tcp_random(void *data, size_t bytes, sg_status *status) {
    ssize_t n;
    do n = getrandom(data, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)bytes) return SG_OK;
    return sg_fail(status, SG_MACHINE, "the system gives no random numbers: %s", strerror(errno));
}

void sg_tcp_clean(char *text, size_t bytes) {
    text[bytes - 1] = 0;
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}
