/* Declarations of the filters, tests, methods and globals in rows.def, and their shared helpers.  Thread: one at a time per
 * run. */
#ifndef BL_PROTO_CHAT_JINJA_ROWS_H
#define BL_PROTO_CHAT_JINJA_ROWS_H

#include "proto/chat/jinja.h"

#define BL_FILTER(name, function, params)       bl_jinja_call bl_jinja_filter_##function;
#define BL_TEST(name, function, params)         bl_jinja_call bl_jinja_test_##function;
#define BL_METHOD(kind, name, function, params) bl_jinja_call bl_jinja_method_##function;
#define BL_GLOBAL(name, function, params)       bl_jinja_call bl_jinja_global_##function;
#include "proto/chat/rows.def"

/* Pads |text| to |width|, aligned 'l'eft, 'r'ight or 'c'entre as str.center() does. */
bl_jinja_value bl_jinja_pad(bl_jinja_run *run, bl_span text, int64_t width, uint32_t fill, char where);
/* str.split() at whitespace; at most |most| splits, -1 for no limit. */
bl_jinja_value bl_jinja_split_spaces(bl_jinja_run *run, bl_span text, int64_t most);

#endif
