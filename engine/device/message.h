/* The protocol between the server and its child processes: a header, then the bytes of the message. Both ends are the same
 * program, so numbers and structs are sent with their layout in memory. A reader that meets malformed data sets |bad| and
 * returns zeros from then on: a process whose driver has corrupted its memory may write any bytes. */
#ifndef BL_DEVICE_MESSAGE_H
#define BL_DEVICE_MESSAGE_H

#include "engine/device/trial.h"

enum {
    BL_MESSAGE_HELLO,   /* first message of a child: the child has started */
    BL_MESSAGE_COMPILE, /* request: device, sources; answer: outcomes of the sources */
    BL_MESSAGE_TIME     /* request: device, trials; answer: outcomes of the trials */
};
enum { BL_MESSAGE_MOST_BYTES = 256 << 20, BL_MESSAGE_MOST_ITEMS = 1 << 16 };

typedef struct bl_message_head {
    uint32_t magic, kind;
    uint64_t len; /* number of bytes after the header */
} bl_message_head;

/* Begin a message in |out|, which must be empty, and finish it. The message may then be sent unless |out| has failed. */
void bl_message_begin(bl_text *out, uint32_t kind);
void bl_message_end(bl_text *out);
bool bl_message_is_head(const bl_message_head *head); /* is the header valid, and the length within the limit? */

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
/* put the trials whose numbers are in |which| */
void bl_message_put_trials(bl_text *out, const bl_trials *trials, const int *which, int n);
void bl_message_put_results(bl_text *out, const bl_trials *trials);

void bl_message_take(bl_message_reader *in, void *data, size_t len);
uint32_t bl_message_take_u32(bl_message_reader *in);
uint32_t bl_message_take_count(bl_message_reader *in, uint32_t most);
/* points into the message and is NUL-terminated; "" if the message is malformed */
const char *bl_message_take_string(bl_message_reader *in, size_t *len);
void bl_message_take_source(bl_message_reader *in, bl_kernel_source *source); /* texts point into the message */
void bl_message_take_err(bl_message_reader *in, bl_err *err);
/* Allocates trials->trial; the caller frees it with free(). NULL if the message is malformed, or without memory. */
void bl_message_take_trials(bl_message_reader *in, bl_trials *trials);
void bl_message_take_results(bl_message_reader *in, bl_trials *trials, const int *which, int n);
bool bl_message_is_whole(const bl_message_reader *in); /* true if the whole message was read without an error */

#endif
