/* What the server and its child processes say to each other: a head, then so many bytes.  Both are the same program, so numbers
 * and structs go as they lie in memory.  A reader that meets what cannot be says so and gives zeros from then on: a process whose
 * driver went wild may write anything. */
#ifndef BL_DEVICE_MESSAGE_H
#define BL_DEVICE_MESSAGE_H

#include "engine/device/trial.h"

enum {
    BL_MESSAGE_HELLO,   /* a child's first: it is there */
    BL_MESSAGE_COMPILE, /* device, sources; outcomes */
    BL_MESSAGE_TIME     /* device, trials; their outcomes */
};
enum { BL_MESSAGE_MOST_BYTES = 256 << 20, BL_MESSAGE_MOST_ITEMS = 1 << 16 };

typedef struct bl_message_head {
    uint32_t magic, kind;
    uint64_t len; /* of what follows */
} bl_message_head;

/* The start of a message in |out|, which is empty, and the end of it: now it may be sent, unless the text says that it failed. */
void bl_message_begin(bl_text *out, uint32_t kind);
void bl_message_end(bl_text *out);
bool bl_message_is_head(const bl_message_head *head); /* it is one, and not too long */

typedef struct bl_message_reader {
    const char *at;
    size_t left;
    bool bad;
} bl_message_reader;

void bl_message_put(bl_text *out, const void *data, size_t len);
void bl_message_put_u32(bl_text *out, uint32_t value);
void bl_message_put_string(bl_text *out, const char *data, size_t len);
void bl_message_put_source(bl_text *out, const bl_kernel_source *source);
void bl_message_put_err(bl_text *out, const bl_err *err);
void bl_message_put_trials(bl_text *out, const bl_trials *trials, const int *which, int n); /* those of |which| alone */
void bl_message_put_results(bl_text *out, const bl_trials *trials);

void bl_message_take(bl_message_reader *in, void *data, size_t len);
uint32_t bl_message_take_u32(bl_message_reader *in);
uint32_t bl_message_take_count(bl_message_reader *in, uint32_t most);
const char *bl_message_take_string(bl_message_reader *in, size_t *len);       /* in the message, with a NUL; "" where it is bad */
void bl_message_take_source(bl_message_reader *in, bl_kernel_source *source); /* texts stay in the message */
void bl_message_take_err(bl_message_reader *in, bl_err *err);
/* |trials->trial| is made here, and freed by the caller with free(); NULL where the message is bad or memory ran out. */
void bl_message_take_trials(bl_message_reader *in, bl_trials *trials);
void bl_message_take_results(bl_message_reader *in, bl_trials *trials, const int *which, int n);
bool bl_message_is_whole(const bl_message_reader *in); /* all was read, and all was good */

#endif
