/* SPDX-License-Identifier: MIT */
#include "proto/picture.h"

#include <png.h>
#include <turbojpeg.h>

/* A progressive JPEG can encode each pixel thousands of times; the decoder refuses more than 500 scans. */
enum { JPEG_FLAGS = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS, PNG_SIGNATURE = 8 };

static bool is_png(bl_span file)
{
    return file.len >= PNG_SIGNATURE && png_sig_cmp((png_const_bytep)file.data, 0, PNG_SIGNATURE) == 0;
}

static bool is_jpeg(bl_span file)
{
    return file.len >= 3 && (unsigned char)file.data[0] == 0xff && (unsigned char)file.data[1] == 0xd8 &&
           (unsigned char)file.data[2] == 0xff;
}

static bl_status check_sides(uint64_t height, uint64_t width, bl_picture *out, bl_err *err)
{
    if (height > BL_PICTURE_MAX_SIDE || width > BL_PICTURE_MAX_SIDE)
        return bl_fail(err, BL_ELIMIT, "the picture has %llu rows of %llu pixels; the limit of each is %d",
                       (unsigned long long)height, (unsigned long long)width, BL_PICTURE_MAX_SIDE);
    out->height = (int)height;
    out->width = (int)width;
    return BL_OK;
}

static bl_status open_png(bl_picture *out, bl_err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&png, out->file.data, out->file.len))
        return bl_fail(err, BL_EINVAL, "%.60s", png.message);
    png_image_free(&png);
    return check_sides(png.height, png.width, out, err);
}

static bl_status open_jpeg(bl_picture *out, bl_err *err)
{
    tjhandle turbo = tjInitDecompress();
    int width = 0, height = 0, subsampling = 0, space = 0;
    bl_status st = BL_OK;
    if (turbo == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a decoder of pictures");
    if (tjDecompressHeader3(turbo, (const unsigned char *)out->file.data, out->file.len, &width, &height, &subsampling, &space) !=
        0)
        st = bl_fail(err, BL_EINVAL, "%.60s", tjGetErrorStr2(turbo));
    tjDestroy(turbo);
    return st == BL_OK ? check_sides((uint64_t)height, (uint64_t)width, out, err) : st;
}

bl_status bl_picture_open(bl_span file, bl_picture *out, bl_err *err)
{
    *out = (bl_picture){.file = file};
    if (is_png(file))
        return open_png(out, err);
    if (is_jpeg(file))
        return open_jpeg(out, err);
    return bl_fail(err, BL_EINVAL, "%zu bytes that are neither a JPEG nor a PNG", file.len);
}

static bl_status read_png(const bl_picture *picture, void *out, bl_err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    bl_status st = BL_OK;
    if (!png_image_begin_read_from_memory(&png, picture->file.data, picture->file.len))
        return bl_fail(err, BL_EINVAL, "%.60s", png.message);
    png.format = PNG_FORMAT_RGB;
    if (!png_image_finish_read(&png, &(png_color){255, 255, 255}, out, 0, NULL))
        st = bl_fail(err, BL_EINVAL, "%.60s", png.message);
    png_image_free(&png);
    return st;
}

static bl_status read_jpeg(const bl_picture *picture, void *out, bl_err *err)
{
    tjhandle turbo = tjInitDecompress();
    bl_status st = BL_OK;
    if (turbo == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a decoder of pictures");
    if (tjDecompress2(turbo, (const unsigned char *)picture->file.data, picture->file.len, out, picture->width, 0,
                      picture->height, TJPF_RGB, JPEG_FLAGS) != 0 &&
        tjGetErrorCode(turbo) == TJERR_FATAL)
        st = bl_fail(err, BL_EINVAL, "%.60s", tjGetErrorStr2(turbo));
    tjDestroy(turbo);
    return st;
}

bl_status bl_picture_read(const bl_picture *picture, void *out, bl_err *err)
{
    return is_png(picture->file) ? read_png(picture, out, err) : read_jpeg(picture, out, err);
}
