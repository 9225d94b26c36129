/* Ensembles of decision trees as the tables of a walk: all trees go down one level at a time, for all rows at once.
 * A place of the tables is a node of a tree.  A node tests whether |least| <= x[feature] <= |most| holds, and the walk goes on to
 * place |child| where the test holds, else to the place behind |child|.  A leaf is its own child and its test always holds, so
 * that short trees wait there for the deep ones. */
#ifndef BL_ONNX_TREES_H
#define BL_ONNX_TREES_H

#include "proto/onnx/import.h"

enum { BL_TREE_MAX_DEPTH = 4096, BL_TREE_MAX_NODES = 1 << 28, BL_TREE_MAX_FEATURE = 1 << 30 };

/* Values as TreeEnsemble (opset 5) has them in nodes_modes. */
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
    int32_t leaf; /* its number, or -1: the node tests */
    int32_t feature;
    int32_t yes, no;         /* nodes */
    int32_t member, nmember; /* of BL_TREE_MEMBER: the first of its members, and how many */
    uint8_t mode;            /* bl_tree_mode */
    bool missing_is_yes;     /* NaN holds */
} bl_tree_node;

/* The trees of a model. */
typedef struct bl_trees {
    int64_t nnodes, cap; /* room for 2 nodes more for each member */
    bl_tree_node *node;
    int64_t nroots;
    const int32_t *root;
    const double *member;
} bl_trees;

typedef struct bl_tree_walk {
    int64_t ntrees, nplaces;
    int depth;      /* steps after which each walk is at a leaf */
    int32_t *root;  /* of each tree: its place */
    int32_t *code;  /* 2 * feature, + 1 where NaN holds */
    int32_t *child; /* where the test holds */
    int32_t *leaf;  /* the leaf's number; 0 at nodes */
    double *most;   /* the largest x for which the test holds */
    double *least;  /* the smallest; -infinity throughout unless |bounded| */
    bool bounded;
} bl_tree_walk;

/* |trees| are changed: a set becomes a search.  |wide|: x is compared as float64, else as float32.  A failure of the call: nodes
 * that are no trees, a walk deeper than BL_TREE_MAX_DEPTH, too many places. */
BL_NODISCARD bool bl_tree_walk_make(bl_onnx_call *c, bl_trees *trees, bool wide, bl_tree_walk *out);

#endif
