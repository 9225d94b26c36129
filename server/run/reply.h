/* SPDX-License-Identifier: MIT */
/* Tensors in an answer: as JSON, as a safetensors file, or as raw bytes. */
#ifndef BL_SERVER_RUN_REPLY_H
#define BL_SERVER_RUN_REPLY_H

#include "proto/encode.h"
#include "server/http/request.h"

/* Check the number of elements of an answer.  BL_ELIMIT if the answer would be JSON and |elements| exceeds the limit for JSON;
 * else sets rq->reply.listed. */
BL_NODISCARD bl_status bl_reply_check_list(bl_request *rq, size_t elements, bl_err *err);
/* Answer with a safetensors file.  |document|, which may be NULL, goes into the metadata under |key|.  The data of the tensors
 * must live until the request ends. */
BL_NODISCARD bl_status bl_reply_safetensors(bl_request *rq, const bl_result *results, size_t count, const char *key,
                                            const char *document);
/* Answer with the bytes of one tensor. */
BL_NODISCARD bl_status bl_reply_octets(bl_request *rq, const bl_result *result);

#endif
