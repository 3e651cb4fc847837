/* frame_codec.h: synthetic camera video whose frames cost what real ones cost to decode.
 *
 * A small video codec of our own with the parts that decoders of robot data sets spend their time in: adaptive binary
 * arithmetic coding, 8x8 inverse cosine transform, motion compensation from a key frame, deblocking, 4:2:0 to RGB. Groups
 * of two frames as LeRobot encodes them (g=2): reading the second one decodes the first, as random access does. */
#ifndef SG_SIM_LOADER_FRAME_CODEC_H
#define SG_SIM_LOADER_FRAME_CODEC_H

#include "kernels/status.h"

#include <stdint.h>

typedef struct sg_frame_codec sg_frame_codec;     /* encoded clips; read-only, shared by threads */
typedef struct sg_frame_decoder sg_frame_decoder; /* planes of one thread */

/* Draws and encodes a few moving scenes. height, width: 8 .. 8192. */
sg_code sg_frame_codec_new(int64_t height, int64_t width, uint64_t seed, sg_frame_codec **codec, sg_status *status);
void sg_frame_codec_free(sg_frame_codec *codec);
/* Distinct frames, numbered from 0; odd ones need the one before. */
int sg_frame_codec_frames(const sg_frame_codec *codec);
/* Encoded bytes of one frame. */
uint64_t sg_frame_codec_bytes(const sg_frame_codec *codec, int frame);

sg_code sg_frame_decoder_new(const sg_frame_codec *codec, sg_frame_decoder **decoder, sg_status *status);
void sg_frame_decoder_free(sg_frame_decoder *decoder);
/* Decodes one frame to u8 RGB: element (channel, row, column) goes to to[channel * stride[0] + row * stride[1] + ...]. */
void sg_frame_decode(sg_frame_decoder *decoder, int frame, uint8_t *to, const int64_t stride[3]);

#endif
