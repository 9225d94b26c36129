/* SPDX-License-Identifier: MIT */
/* Describes the wire ops: proto/ops.json for the generators of the clients, docs/ops.md for readers.  tools/ops generates both
 * files, and they are committed. */
#ifndef BL_TOOLS_DESCRIBE_H
#define BL_TOOLS_DESCRIBE_H

#include "engine/base/text.h"

/* False if an example cannot be built; the reason is on stderr. */
bool bl_describe_json(bl_text *out);
bool bl_describe_markdown(bl_text *out);

#endif
