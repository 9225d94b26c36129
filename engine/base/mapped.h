/* Files that are read through a mapping.  When the system cannot read a page of a mapped file, since the file became shorter or
 * its disk failed, the process gets SIGBUS.  The files of this module then read as zeros from that page on, and the file is lost:
 * a reader calls bl_mapped_check after its last read and before the result is used.  SIGBUS at any other address has the action
 * that it had before the first file was mapped.
 *
 * The bytes can change while they are read: another process may write the file.  A reader must not trust a second read to give
 * what a first read has checked.
 * Thread: a bl_mapped belongs to one thread at a time; any thread may read the bytes. */
#ifndef BL_BASE_MAPPED_H
#define BL_BASE_MAPPED_H

#include "engine/base/text.h"

typedef struct bl_mapped_file bl_mapped_file;

/* The files of one reader.  Zero-initialised: none. */
typedef struct bl_mapped {
    bl_mapped_file *first;
} bl_mapped;

/* Map the whole regular file |fd|; the caller may close |fd| afterwards. Errors and bl_mapped_find use |name|. *out is valid
 * until bl_mapped_fini, and empty for an empty file. BL_EINVAL: no regular file; BL_ESTORAGE; BL_ENOMEM. */
BL_NODISCARD bl_status bl_mapped_add(bl_mapped *files, int fd, const char *name, bl_span *out, bl_err *err);
/* Store in *out the bytes of the file that was added as |name|. False if no file has that name. */
bool bl_mapped_find(const bl_mapped *files, const char *name, bl_span *out);
/* Return |st|, the reader's own status, if all files could be read. Otherwise return BL_ESTORAGE, and |err| names the lost file
 * instead of what it held before. */
BL_NODISCARD bl_status bl_mapped_check(const bl_mapped *files, bl_status st, bl_err *err);
void bl_mapped_fini(bl_mapped *files);

#endif
