// 64 cells along o at a time; each adds its terms by k_d, k_h, k_w, c, the last one fastest.
void convolution_f16_nxc_xio_grouped_portable(
    const opwright_f16 *restrict src,
    const opwright_f16 *restrict weights,
    const opwright_f16 *restrict bias,
    opwright_f16 *restrict dst,
    const opwright_convolution_sizes *sizes, int64_t part, int64_t parts)
{
    const int64_t N = sizes->N;
    const int64_t IC = sizes->IC;
    const int64_t OC = sizes->OC;
    const int64_t I_d = sizes->I[0];
    const int64_t I_h = sizes->I[1];
    const int64_t I_w = sizes->I[2];
    const int64_t O_d = sizes->O[0];
    const int64_t O_h = sizes->O[1];
    const int64_t O_w = sizes->O[2];
    const int64_t K_d = sizes->K[0];
    const int64_t K_h = sizes->K[1];
    const int64_t K_w = sizes->K[2];
    const int64_t D_d = sizes->D[0];
    const int64_t D_h = sizes->D[1];
    const int64_t D_w = sizes->D[2];
    const int64_t G = sizes->G;
    const int64_t PB_d = sizes->PB[0];
    const int64_t PB_h = sizes->PB[1];
    const int64_t PB_w = sizes->PB[2];
    const int64_t S_d = sizes->S[0];
    const int64_t S_h = sizes->S[1];
    const int64_t S_w = sizes->S[2];
    const int64_t OC_per_G = OC / G;
    const int64_t IC_per_G = IC / G;
    const int64_t dst_stride_n = OC * O_d * O_h * O_w;
    const int64_t dst_stride_d = OC * O_h * O_w;
    const int64_t dst_stride_h = OC * O_w;
    const int64_t dst_stride_w = OC;
    const int64_t src_stride_n = IC * I_d * I_h * I_w;
    const int64_t src_stride_d = IC * I_h * I_w;
    const int64_t src_stride_h = IC * I_w;
    const int64_t src_stride_w = IC;
    const int64_t weights_stride_d = IC * K_h * K_w * OC_per_G;
    const int64_t weights_stride_h = IC * K_w * OC_per_G;
    const int64_t weights_stride_w = IC * OC_per_G;
    const int64_t weights_stride_i = OC;
    const int64_t total = N * O_d * O_h * O_w * G;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t n = task / (O_d * O_h * O_w * G);
        const int64_t i_d = task / (O_h * O_w * G) % O_d;
        const int64_t i_h = task / (O_w * G) % O_h;
        const int64_t i_w = task / G % O_w;
        const int64_t g = task % G;
        const int64_t dst_at = n * dst_stride_n + i_d * dst_stride_d + i_h * dst_stride_h + i_w * dst_stride_w + g * OC_per_G;
        const int64_t k_d_end = opwright_min(K_d, opwright_floor_div(I_d + PB_d - i_d * S_d - 1, D_d) + 1);
        const int64_t k_d_begin = opwright_max(0, opwright_ceil_div(PB_d - i_d * S_d, D_d));
        const int64_t k_h_end = opwright_min(K_h, opwright_floor_div(I_h + PB_h - i_h * S_h - 1, D_h) + 1);
        const int64_t k_h_begin = opwright_max(0, opwright_ceil_div(PB_h - i_h * S_h, D_h));
        const int64_t k_w_end = opwright_min(K_w, opwright_floor_div(I_w + PB_w - i_w * S_w - 1, D_w) + 1);
        const int64_t k_w_begin = opwright_max(0, opwright_ceil_div(PB_w - i_w * S_w, D_w));
        for (int64_t o_from = 0; o_from < OC_per_G; o_from += 64) {
            const int64_t o_to = opwright_min(o_from + 64, OC_per_G);
            float sums[64];
            for (int64_t lane = 0; lane < 64; ++lane) {
                sums[lane] = 0.0f;
            }
            for (int64_t k_d = k_d_begin; k_d < k_d_end; ++k_d) {
                for (int64_t k_h = k_h_begin; k_h < k_h_end; ++k_h) {
                    for (int64_t k_w = k_w_begin; k_w < k_w_end; ++k_w) {
                        for (int64_t c = 0; c < IC_per_G; ++c) {
                            const int64_t src_at = n * src_stride_n + (i_d * S_d + k_d * D_d - PB_d) * src_stride_d + (i_h * S_h + k_h * D_h - PB_h) * src_stride_h + (i_w * S_w + k_w * D_w - PB_w) * src_stride_w + g * IC_per_G + c;
                            const int64_t weights_at = k_d * weights_stride_d + k_h * weights_stride_h + k_w * weights_stride_w + c * weights_stride_i + g * OC_per_G;
                            for (int64_t o = o_from; o < o_to; ++o) {
                                sums[o - o_from] += opwright_from_f16(src[src_at]) * opwright_from_f16(weights[weights_at + o]);
                            }
                        }
                    }
                }
            }
            for (int64_t o = o_from; o < o_to; ++o) {
                dst[dst_at + o] = opwright_to_f16(sums[o - o_from] + (bias ? opwright_from_f16(bias[g * OC_per_G + o]) : 0));
            }
        }
    }
}
