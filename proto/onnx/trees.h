/* Ensembles of decision trees as tables for a walk: all trees descend one level at a time, for all rows at once.
 *
 * A table entry is a node of a tree.  A node tests |least| <= x[feature] <= |most|; the walk goes to entry |child| if the test
 * holds, else to the entry after |child|.  A leaf is its own child and its test always holds, so that short trees stay at their
 * leaves until the deepest tree is done.  Thread: the import's thread. */
#ifndef BL_ONNX_TREES_H
#define BL_ONNX_TREES_H

#include "proto/onnx/import.h"

enum { BL_TREE_MAX_DEPTH = 4096, BL_TREE_MAX_NODES = 1 << 28, BL_TREE_MAX_FEATURE = 1 << 30 };

/* Values of nodes_modes of TreeEnsemble (opset 5). */
typedef enum bl_tree_mode {
    BL_TREE_LEQ,
    BL_TREE_LT,
    BL_TREE_GTE,
    BL_TREE_GT,
    BL_TREE_EQ,
    BL_TREE_NEQ,
    BL_TREE_MEMBER,
    BL_TREE_MODES
} bl_tree_mode;

/* A node or a leaf of the model. */
typedef struct bl_tree_node {
    double value;
    int32_t leaf; /* number of the leaf, or -1: the node has a test */
    int32_t feature;
    int32_t yes, no;         /* numbers of the successors */
    int32_t member, nmember; /* BL_TREE_MEMBER: index of its first member, and their number */
    uint8_t mode;            /* bl_tree_mode */
    bool missing_is_yes;     /* the test holds for NaN */
} bl_tree_node;

/* The trees of a model. */
typedef struct bl_trees {
    int64_t nnodes, cap; /* the array has room for 2 more nodes for each member */
    bl_tree_node *node;
    int64_t nroots;
    const int32_t *root;
    const double *member;
} bl_trees;

typedef struct bl_tree_walk {
    int64_t ntrees, nplaces;
    int depth;      /* number of steps after which every walk is at a leaf */
    int32_t *root;  /* entry of each tree's root */
    int32_t *code;  /* 2 * feature, + 1 if the test holds for NaN */
    int32_t *child; /* next entry if the test holds */
    int32_t *leaf;  /* number of the leaf; 0 for other nodes */
    double *most;   /* the largest x that passes the test */
    double *least;  /* the smallest x that passes the test; -infinity throughout unless |bounded| */
    bool bounded;
} bl_tree_walk;

/* Changes |trees|: replaces a set membership by a search.  |wide|: compares x as float64, else as float32.  Fails if the nodes
 * are no trees, a walk is deeper than BL_TREE_MAX_DEPTH, or there are too many entries. */
BL_NODISCARD bool bl_tree_walk_make(bl_onnx_call *c, bl_trees *trees, bool wide, bl_tree_walk *out);

#endif
