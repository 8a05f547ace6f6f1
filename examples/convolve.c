// A reference kernel called from C. The header declares every kernel and the struct of sizes of each operation.
#include <stdio.h>

#include "opwright_kernels.h"

int main(void) {
    // One image of 3 x 3 pixels and one channel, channels last, under a kernel of 2 x 2 ones: an output sums four pixels.
    const float src[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const float weights[4] = {1, 1, 1, 1};
    float dst[4];
    // Spatial arrays are right-aligned: the depth that an image lacks has extent 1, stride 1 and no padding.
    const opwright_convolution_sizes sizes = {
        .N = 1, .IC = 1, .OC = 1, .G = 1,
        .I = {1, 3, 3}, .O = {1, 2, 2}, .K = {1, 2, 2},
        .D = {1, 1, 1}, .S = {1, 1, 1}, .PB = {0, 0, 0},
    };
    convolution_f32_nxc_xio_dense_portable(src, weights, NULL, dst, &sizes, 0, 1);
    printf("%g %g %g %g\n", dst[0], dst[1], dst[2], dst[3]);
    return dst[0] == 12 && dst[1] == 16 && dst[2] == 24 && dst[3] == 28 ? 0 : 1;
}
