/* block_tree.h: free blocks of a pool ordered by (bytes, segment, offset).
 *
 * A treap: a search tree by that order which is also a heap by `priority`, a hash of the block's place; so its expected
 * depth is logarithmic whatever the sequence of requests (Aragon and Seidel, 1989). */
#ifndef SG_SIM_WALK_BLOCK_TREE_H
#define SG_SIM_WALK_BLOCK_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct sg_block {
    void *address;
    uint64_t bytes;
    uint64_t segment, offset;                     /* age of the segment; bytes from its start */
    struct sg_block *previous, *next;             /* neighbours in the segment */
    struct sg_block *left, *right;                /* in the tree */
    struct sg_block *segment_prev, *segment_next; /* of a segment's first block: list of segments */
    uint64_t priority;
    bool taken, large;
};

typedef struct sg_block_tree {
    struct sg_block *root;
} sg_block_tree;

/* The finaliser of SplitMix64 (Steele, Lea, Flood, 2014). */
static inline uint64_t sg_block_priority(uint64_t place) {
    uint64_t z = place + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void sg_block_tree_insert(sg_block_tree *tree, struct sg_block *block);
/* The block must be in the tree and unchanged since it was inserted. */
void sg_block_tree_remove(sg_block_tree *tree, struct sg_block *block);
/* First block of at least `bytes`, or NULL. */
struct sg_block *sg_block_tree_at_least(const sg_block_tree *tree, uint64_t bytes);
/* The largest block, or NULL. */
const struct sg_block *sg_block_tree_last(const sg_block_tree *tree);

#endif
