/* SPDX-License-Identifier: MIT */
/* Graphs whose first nest shows one choice of the heuristic each.  test_forms compares the moves; tools/texts.py compares the
 * rendered text on every described device. */
#ifndef BL_TESTS_OPT_FORMS_H
#define BL_TESTS_OPT_FORMS_H

#define F32(...)          "{'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"
#define TYPED(dtype, ...) "{'dtype': '" #dtype "', 'shape': [" #__VA_ARGS__ "]}"

typedef struct form_row {
    const char *name;
    int axes;          /* of the first nest, after the merge of adjacent loops */
    const char *moves; /* expected moves for two cores with vectors of 16 floats */
    const char *document;
} form_row;

extern const form_row forms[];
extern const int nforms;
/* The same for a device that loads vectors under masks. */
extern const form_row masked_forms[];
extern const int nmasked_forms;

#endif
