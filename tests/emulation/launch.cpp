/* launch.cpp: runs the blocks of a kernel one after another. Threads that never meet run to their end in turn; threads that
 * work together are fibers (fiber.h) that give way at every barrier and shuffle. In which order is a setting: a barrier
 * that is missing shows when the order changes. */
#include "tests/emulation/fiber.h"
#include "tests/emulation/include/cuda_runtime.h"

extern "C" {
#include "tests/emulation/state.h"
}

#include <atomic>
#include <stdlib.h>

extern "C" {
thread_local sg_emu_place sg_emu_now;
}

namespace {

enum { WARP = 32, THREADS_MOST = 1024, SHARED_MOST = 48 << 10, SHARED_NAMES = 16, LANE_BYTES = 16 };

struct meeting { /* a barrier: of a block or of one warp */
    unsigned members, arrived;
    uint64_t generation;
};

/* Numbers 0 .. n - 1, each once, in some order: a + step i mod n, step prime to n. */
struct sequence {
    uint64_t n, at, step;
    uint64_t next() {
        uint64_t now_at = at;
        at = (at + step) % n;
        return now_at;
    }
};

uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct shuffler {
    unsigned order;
    uint64_t state;

    uint64_t number() { /* splitmix64 (Steele, Lea and Flood 2014) */
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    sequence of(uint64_t n) {
        if (order == 0 || n == 1) return sequence{n, 0, 1};
        if (order == 1) return sequence{n, n - 1, n - 1};
        uint64_t step = number() % n;
        while (common_divisor(step, n) != 1) step = step + 1 < n ? step + 1 : 1;
        return sequence{n, number() % n, step};
    }
    /* Warps that stand still for a while. */
    uint32_t idle() { return order > 1 ? (uint32_t)(number() & number()) : 0; }
};

struct block_state {
    shuffler shuffle;
    const char *kernel;
    bool together, failed;
    unsigned threads, alive;
    void (*run)(void *);
    void *closure;
    alignas(64) char shared[SHARED_MOST];
    size_t shared_used;
    const void *shared_key[SHARED_NAMES];
    size_t shared_at[SHARED_NAMES];
    int shared_names;
    meeting whole, warp[THREADS_MOST / WARP];
    char lane[2][THREADS_MOST][LANE_BYTES];
    int votes[2][THREADS_MOST];
    sg_emu_fiber *fiber[THREADS_MOST];
    meeting *waits_for[THREADS_MOST];
    uint64_t waits_until[THREADS_MOST];
    bool done[THREADS_MOST];
    unsigned running;
};

thread_local block_state *now;

sg_emu_index index_of(unsigned t) {
    sg_emu_index d = sg_emu_now.block_dim;
    return sg_emu_index{t % d.x, t / d.x % d.y, t / d.x / d.y};
}

/* Whoever comes last opens the way for all. */
void meet(meeting *m) {
    uint64_t mine = m->generation;
    if (++m->arrived == m->members) {
        m->arrived = 0;
        m->generation++;
        return;
    }
    unsigned me = now->running;
    now->waits_for[me] = m;
    now->waits_until[me] = mine + 1;
    sg_emu_fiber_yield();
    now->waits_for[me] = nullptr;
}

void need_together(const char *what) {
    if (now->together) return;
    sg_emu_report_fault("%s in kernel %s, which was launched with SG_LAUNCH: use SG_LAUNCH_TOGETHER", what,
                        now->kernel);
    abort();
}

void thread_main(void *) {
    block_state *b = now;
    b->run(b->closure);
    b->done[b->running] = true;
    b->alive--;
}

bool may_run(const block_state *b, unsigned t) {
    return !b->done[t] && (!b->waits_for[t] || b->waits_for[t]->generation >= b->waits_until[t]);
}

/* Each thread that may goes on to where it waits next; false: none may. idle: bits of warps that may not. */
bool run_round(block_state *b, uint32_t idle) {
    bool moved = false;
    sequence threads = b->shuffle.of(b->threads);
    for (unsigned i = 0; i < b->threads; i++) {
        unsigned t = (unsigned)threads.next();
        if ((idle >> t / WARP & 1u) || !may_run(b, t)) continue;
        moved = true;
        b->running = t;
        sg_emu_now.thread = index_of(t);
        sg_emu_fiber_resume(b->fiber[t]);
    }
    return moved;
}

bool run_together(block_state *b) {
    b->whole = meeting{b->threads, 0, 0};
    for (unsigned w = 0; w * WARP < b->threads; w++) {
        unsigned rest = b->threads - w * WARP;
        b->warp[w] = meeting{rest < WARP ? rest : (unsigned)WARP, 0, 0};
    }
    for (unsigned t = 0; t < b->threads; t++) {
        b->waits_for[t] = nullptr;
        b->done[t] = false;
        b->fiber[t] = sg_emu_fiber_new(thread_main, nullptr);
        if (!b->fiber[t]) {
            sg_emu_report_fault("no memory for the threads of kernel %s", b->kernel);
            abort();
        }
    }
    b->alive = b->threads;
    while (b->alive) {
        uint32_t idle = b->shuffle.idle();
        if (run_round(b, idle) || (idle && run_round(b, 0))) continue;
        sg_emu_report_fault("kernel %s: threads of a block wait at a barrier that others never reach", b->kernel);
        b->failed = true;
        break;
    }
    for (unsigned t = 0; t < b->threads; t++) sg_emu_fiber_free(b->fiber[t]);
    return !b->failed;
}

bool run_apart(block_state *b) {
    sequence threads = b->shuffle.of(b->threads);
    for (unsigned i = 0; i < b->threads; i++) {
        b->running = (unsigned)threads.next();
        sg_emu_now.thread = index_of(b->running);
        b->run(b->closure);
    }
    return true;
}

struct launch {
    const char *name;
    bool together;
    dim3 grid, block;
    void (*run)(void *);
    void (*destroy)(void *);
    void *closure;
};

bool run_grid(void *work) {
    launch *l = static_cast<launch *>(work);
    block_state *b = static_cast<block_state *>(calloc(1, sizeof(block_state)));
    if (!b) return false;
    static std::atomic<uint64_t> launches;
    b->shuffle = shuffler{sg_emu()->order, sg_emu()->order * 0x100000001b3u + launches++};
    b->kernel = l->name;
    b->together = l->together;
    b->threads = l->block.x * l->block.y * l->block.z;
    b->run = l->run;
    b->closure = l->closure;
    now = b;
    sg_emu_now.block_dim = sg_emu_index{l->block.x, l->block.y, l->block.z};
    sg_emu_now.grid_dim = sg_emu_index{l->grid.x, l->grid.y, l->grid.z};
    bool fine = true;
    uint64_t blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
    sequence order = b->shuffle.of(blocks);
    for (uint64_t i = 0; i < blocks && fine; i++) {
        uint64_t at = order.next(), row = at / l->grid.x;
        sg_emu_now.block =
            sg_emu_index{(unsigned)(at % l->grid.x), (unsigned)(row % l->grid.y), (unsigned)(row / l->grid.y)};
        b->shared_names = 0;
        b->shared_used = 0;
        fine = b->together ? run_together(b) : run_apart(b);
    }
    now = nullptr;
    free(b);
    return fine;
}

void release(void *work) {
    launch *l = static_cast<launch *>(work);
    l->destroy(l->closure);
    free(l);
}

} // namespace

extern "C" {

/* Fresh for every block and filled with NaN: what one block left is not there for the next. */
void *sg_emu_shared(const void *key, size_t bytes) {
    block_state *b = now;
    for (int i = 0; i < b->shared_names; i++)
        if (b->shared_key[i] == key) return b->shared + b->shared_at[i];
    size_t at = (b->shared_used + 15) / 16 * 16;
    if (b->shared_names == SHARED_NAMES || at + bytes > SHARED_MOST) {
        sg_emu_report_fault("kernel %s takes more than %d bytes of shared memory", b->kernel, (int)SHARED_MOST);
        abort();
    }
    memset(b->shared + at, 0xff, bytes);
    b->shared_key[b->shared_names] = key;
    b->shared_at[b->shared_names++] = at;
    b->shared_used = at + bytes;
    return b->shared + at;
}

void sg_emu_sync_block(void) {
    need_together("__syncthreads");
    meet(&now->whole);
}

void sg_emu_sync_warp(void) {
    need_together("__syncwarp");
    meet(&now->warp[now->running / WARP]);
}

/* Two sets of slots: a lane may be one exchange ahead of its neighbours, never two. */
void sg_emu_shuffle(void *value, size_t bytes, unsigned from) {
    need_together("a shuffle");
    block_state *b = now;
    unsigned me = b->running, first = me / WARP * WARP;
    meeting *m = &b->warp[me / WARP];
    unsigned set = (unsigned)(m->generation & 1);
    memcpy(b->lane[set][me], value, bytes);
    meet(m);
    if (first + from < b->threads) memcpy(value, b->lane[set][first + from], bytes);
}

unsigned sg_emu_ballot(int predicate) {
    need_together("a vote");
    block_state *b = now;
    unsigned me = b->running, first = me / WARP * WARP, mask = 0;
    meeting *m = &b->warp[me / WARP];
    unsigned set = (unsigned)(m->generation & 1);
    b->votes[set][me] = predicate;
    meet(m);
    for (unsigned i = 0; i < WARP && first + i < b->threads; i++)
        mask |= (b->votes[set][first + i] != 0 ? 1u : 0u) << i;
    return mask;
}

cudaError_t sg_emu_launch(const char *name, int together, dim3 grid, dim3 block, cudaStream_t stream,
                          void (*run)(void *), void (*destroy)(void *), void *closure) {
    bool fails = sg_emu_call_fails("kernel launch", __builtin_return_address(0));
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    bool sound = threads >= 1 && threads <= THREADS_MOST && grid.x >= 1 && grid.y >= 1 && grid.z >= 1 &&
                 grid.y <= 65535 && grid.z <= 65535 && grid.x <= 0x7fffffff;
    if (!sound) sg_emu_report_fault("kernel %s was launched with an impossible grid or block", name);
    launch *l = sound && !fails ? static_cast<launch *>(malloc(sizeof(launch))) : nullptr;
    if (!l) {
        destroy(closure);
        return fails ? cudaErrorUnknown : cudaErrorInvalidValue;
    }
    *l = launch{name, together != 0, grid, block, run, destroy, closure};
    sg_emu_set_error(sg_emu_enqueue(stream, name, run_grid, release, l));
    return cudaGetLastError(); /* which is also what an earlier call left behind */
}
}
