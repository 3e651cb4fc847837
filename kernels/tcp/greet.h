/* greet.h: how two ranks find out that they belong together before either believes a byte of the other.
 *
 * The rank that connects says who it is and sends a random number; rank 0 answers with one of its own and a proof that it
 * knows the secret; the other proves the same; rank 0 gives its verdict. Every message has a fixed size. The proofs are keyed
 * hashes of all that was said, so the secret itself never travels, and they keep strangers and other jobs out; what
 * follows is neither encrypted nor signed. */
#ifndef SG_KERNELS_TCP_GREET_H
#define SG_KERNELS_TCP_GREET_H

#include "kernels/tcp/world.h"

/* Also tells a host of another byte order. */
#define SG_TCP_MAGIC UINT64_C(0x6b6e617267732f32)

typedef struct sg_tcp_key {
    uint64_t half[2];
} sg_tcp_key;

typedef struct sg_tcp_hello {
    uint64_t magic;
    int32_t rank, ranks, channel, zero;
    int64_t pid;
    uint64_t visit; /* one random number for all connections of one join */
    uint64_t nonce[2];
    char host[SG_TCP_HOST_BYTES];
} sg_tcp_hello;

typedef struct sg_tcp_reply {
    uint64_t magic, nonce[2], proof;
    int64_t pid;
    char host[SG_TCP_HOST_BYTES];
} sg_tcp_reply;

typedef struct sg_tcp_answer {
    uint64_t proof;
} sg_tcp_answer;

typedef struct sg_tcp_verdict {
    int32_t accepted, zero;
    char why[248];
} sg_tcp_verdict;

/* Keyed hash of any bytes: SipHash-2-4 (Aumasson and Bernstein, 2012). */
uint64_t sg_tcp_hash(const sg_tcp_key *key, const void *data, size_t bytes);
sg_tcp_key sg_tcp_key_of(const char *secret);
/* What rank 0 (`reply`) and the other rank (`answer`) must show. */
uint64_t sg_tcp_reply_proof(const sg_tcp_key *key, const sg_tcp_hello *hello, const sg_tcp_reply *reply);
uint64_t sg_tcp_answer_proof(const sg_tcp_key *key, const sg_tcp_hello *hello, const sg_tcp_reply *reply);
/* Random bytes; SG_MACHINE where the system has none. */
sg_code sg_tcp_random(void *data, size_t bytes, sg_status *status);
/* Ends the text within its field and keeps only what prints. */
void sg_tcp_clean(char *text, size_t bytes);

#endif
