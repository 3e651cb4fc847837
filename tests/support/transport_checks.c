#include "tests/support/transport_checks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Element i of rank r: any sign and size, reproducible everywhere. */
static float sample(int r, int64_t i) {
    uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + (uint64_t)(r + 1) * 0xD1B54A32D192ED03u;
    x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 32;
    return (float)((double)(int64_t)x / 9.3e18) * (1.0f + (float)(i % 7));
}

static double hash_of(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
    return (double)(hash >> 11); /* 53 bits: exact */
}

static void need_identical(sg_transport *transport, const void *data, size_t bytes) {
    double mine = hash_of(data, bytes), all[64];
    NEED_OK(transport->api->gather_doubles(transport, &mine, 1, all, &status_));
    for (int r = 1; transport->rank == 0 && r < transport->ranks; r++) NEED(all[r] == all[0]);
}

static float mean_at(int ranks, int64_t i) {
    double sum = 0;
    for (int r = 0; r < ranks; r++) sum += (double)sample(r, i);
    return (float)(sum / ranks);
}

static bool is_mean(float value, int ranks, int64_t i) {
    float mean = mean_at(ranks, i);
    return fabsf(value - mean) <= 1.2e-7f * fabsf(mean);
}

static void reduce_f32(sg_transport *transport, int64_t count) {
    float *buffer = malloc((size_t)count * sizeof *buffer + 1);
    NEED(buffer);
    for (int64_t i = 0; i < count; i++) buffer[i] = sample(transport->rank, i);
    NEED_OK(transport->api->all_reduce_mean(transport, buffer, count, SG_F32, &status_));
    for (int64_t i = 0; i < count; i++) NEED(is_mean(buffer[i], transport->ranks, i));
    need_identical(transport, buffer, (size_t)count * sizeof *buffer);
    free(buffer);
}

static uint16_t bf16_of(float value) { /* truncates: any bf16 will do as input */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float of_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void reduce_bf16(sg_transport *transport, int64_t count) {
    uint16_t *buffer = malloc((size_t)count * sizeof *buffer);
    NEED(buffer);
    for (int64_t i = 0; i < count; i++) buffer[i] = bf16_of(sample(transport->rank, i));
    NEED_OK(transport->api->all_reduce_mean(transport, buffer, count, SG_BF16, &status_));
    for (int64_t i = 0; i < count; i++) {
        double sum = 0, largest = 0;
        for (int r = 0; r < transport->ranks; r++) {
            double x = (double)of_bf16(bf16_of(sample(r, i)));
            sum += x;
            largest = fmax(largest, fabs(x));
        }
        double mean = sum / transport->ranks;
        /* half a unit of 8 bits of the result, and fp32's own error of the sum */
        NEED(fabs((double)of_bf16(buffer[i]) - mean) <= fabs(mean) / 256 + largest * 1e-6);
    }
    need_identical(transport, buffer, (size_t)count * sizeof *buffer);
    free(buffer);
}

void sg_check_reductions(sg_transport *transport, int64_t most) {
    static const int64_t counts[] = {0, 1, 2, 3, 5, 1000, 262144, 1000003, 9000001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] <= most) reduce_f32(transport, counts[i]);
    reduce_bf16(transport, 1);
    reduce_bf16(transport, 100001);
}

void sg_check_parts(sg_transport *transport, int64_t part) {
    int ranks = transport->ranks;
    float *whole = malloc((size_t)(part * ranks) * sizeof *whole), *mine = malloc((size_t)part * sizeof *mine);
    NEED(whole && mine);
    for (int64_t i = 0; i < part * ranks; i++) whole[i] = sample(transport->rank, i);
    NEED_OK(transport->api->reduce_scatter_mean(transport, whole, mine, part, SG_F32, &status_));
    for (int64_t i = 0; i < part; i++) NEED(is_mean(mine[i], ranks, transport->rank * part + i));
    NEED_OK(transport->api->all_gather(transport, mine, whole, part, SG_F32, &status_));
    for (int64_t i = 0; i < part * ranks; i++) NEED(is_mean(whole[i], ranks, i));
    need_identical(transport, whole, (size_t)(part * ranks) * sizeof *whole);
    free(mine);
    free(whole);
}

static void figures(sg_transport *transport) {
    double mine[3] = {transport->rank, transport->rank * 10.0, 0.5}, all[3 * 64] = {0};
    NEED_OK(transport->api->gather_doubles(transport, mine, 3, all, &status_));
    for (int r = 0; transport->rank == 0 && r < transport->ranks; r++)
        NEED(all[3 * r] == r && all[3 * r + 1] == 10 * r && all[3 * r + 2] == 0.5);
    NEED_OK(transport->api->gather_doubles(transport, NULL, 0, all, &status_));
    NEED_OK(transport->api->barrier(transport, &status_));
}

void sg_check_control(sg_transport *transport) {
    enum { BYTES = 300001 };
    unsigned char *data = malloc(BYTES);
    NEED(data);
    figures(transport);
    for (int root = 0; root < transport->ranks; root++) {
        memset(data, transport->rank + 1, BYTES);
        NEED_OK(transport->api->broadcast(transport, data, BYTES, root, &status_));
        for (size_t i = 0; i < BYTES; i++) NEED(data[i] == root + 1);
    }
    NEED_OK(transport->api->broadcast(transport, NULL, 0, 0, &status_));
    free(data);
}

void sg_check_refusals(sg_transport *transport) {
    float x = 1;
    sg_status status = {0};
    const sg_transport_api *api = transport->api;
    NEED(api->all_reduce_mean(transport, &x, 1, SG_F64, &status) == SG_BAD_INPUT);
    NEED(api->all_reduce_mean(transport, &x, -1, SG_F32, &status) == SG_BAD_INPUT);
    NEED(api->all_reduce_mean(transport, NULL, 1, SG_F32, &status) == SG_BAD_INPUT);
    NEED(api->all_gather(transport, &x, NULL, 1, SG_F32, &status) == SG_BAD_INPUT);
    NEED(api->reduce_scatter_mean(transport, NULL, &x, 1, SG_F32, &status) == SG_BAD_INPUT);
    NEED(api->gather_doubles(transport, NULL, 5, NULL, &status) == SG_BAD_INPUT);
    NEED(api->broadcast(transport, &x, sizeof x, transport->ranks, &status) == SG_BAD_INPUT);
    NEED(api->broadcast(transport, NULL, sizeof x, 0, &status) == SG_BAD_INPUT);
    char why[64];
    NEED(!api->lost(transport, why, sizeof why));
}

static void *reduce_again_and_again(void *user) {
    sg_transport *transport = user;
    for (int i = 0; i < 30; i++) {
        float buffer[4000];
        for (int64_t k = 0; k < 4000; k++) buffer[k] = sample(transport->rank, k);
        NEED_OK(transport->api->all_reduce_mean(transport, buffer, 4000, SG_F32, &status_));
        for (int64_t k = 0; k < 4000; k++) NEED(is_mean(buffer[k], transport->ranks, k));
    }
    return NULL;
}

void sg_check_two_threads(sg_transport *transport) {
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, reduce_again_and_again, transport) == 0);
    for (int i = 0; i < 30; i++) figures(transport);
    NEED(pthread_join(thread, NULL) == 0);
}
