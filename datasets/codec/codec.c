/* codec.c: opens the modules that decode and encode frames. */
#include "datasets/codec/codec.h"

#include "kernels/module.h"

sg_code sg_codec_open(const char *name, const sg_codec_api **api, sg_status *status) {
    sg_module_place place;
    const void *table;
    *api = NULL;
    sg_code code = sg_module_table(name, "sg_module_codec", &place, &table, status);
    if (code) return code;
    const sg_codec_api *found = table;
    if (found->abi != SG_CODEC_ABI)
        return sg_fail(status, SG_MACHINE,
                       "module %s (%.300s) has codec interface %u, this program needs %d: build program and modules "
                       "together",
                       name, place.path, found->abi, SG_CODEC_ABI);
    *api = found;
    return SG_OK;
}
