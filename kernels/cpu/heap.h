/* heap.h: the cpu device's memory: freed segments are kept and handed out again, on huge pages where Linux gives them.
 *
 * A training step takes and gives the same gigabytes again and again. From the C library large blocks come fresh from the
 * kernel each time, which costs 0.6 ms per MB here (0.13 ms on huge pages) against 0.05 ms to read or write it, and streams
 * over 4 KiB pages run at 60 to 70 % of their speed on 2 MiB pages (bench/ops).
 *
 * Good fit: free blocks in bins by size (power of two, sixteenths), joined with free neighbours (Masmano et al., "TLSF: a new
 * dynamic memory allocator for real-time systems", ECRTS 2004). Bookkeeping lies outside the memory it keeps. */
#ifndef SG_KERNELS_CPU_HEAP_H
#define SG_KERNELS_CPU_HEAP_H

#include <stdint.h>

typedef struct sg_heap sg_heap;

/* NULL: out of memory. At most `limit` bytes will be taken from the system (0: no limit). */
sg_heap *sg_heap_open(uint64_t limit);
/* Gives everything back, blocks still taken included. */
void sg_heap_close(sg_heap *heap);
/* A block of at least `bytes` bytes, aligned to 512; NULL: none left. Contents are undefined. Any thread may call. */
void *sg_heap_take(sg_heap *heap, uint64_t bytes);
/* NULL is allowed; an address that take did not give is ignored. */
void sg_heap_give(sg_heap *heap, void *block);

#endif
