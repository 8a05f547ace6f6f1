// 64 cells along c at a time; each adds its terms by n, i_d, i_h, i_w, the last one fastest.
void conv_transpose_backward_weights_f16_nxc_xoi_dense_portable(
    const opwright_f16 *restrict src,
    const opwright_f16 *restrict diff_dst,
    opwright_f16 *restrict diff_weights,
    const opwright_conv_transpose_backward_weights_sizes *sizes, int64_t part, int64_t parts)
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
    const int64_t PB_d = sizes->PB[0];
    const int64_t PB_h = sizes->PB[1];
    const int64_t PB_w = sizes->PB[2];
    const int64_t S_d = sizes->S[0];
    const int64_t S_h = sizes->S[1];
    const int64_t S_w = sizes->S[2];
    const int64_t diff_weights_stride_d = IC * K_h * K_w * OC;
    const int64_t diff_weights_stride_h = IC * K_w * OC;
    const int64_t diff_weights_stride_w = IC * OC;
    const int64_t diff_weights_stride_o = IC;
    const int64_t src_stride_n = IC * I_d * I_h * I_w;
    const int64_t src_stride_d = IC * I_h * I_w;
    const int64_t src_stride_h = IC * I_w;
    const int64_t src_stride_w = IC;
    const int64_t diff_dst_stride_n = OC * O_d * O_h * O_w;
    const int64_t diff_dst_stride_d = OC * O_h * O_w;
    const int64_t diff_dst_stride_h = OC * O_w;
    const int64_t diff_dst_stride_w = OC;
    const int64_t total = K_d * K_h * K_w * OC;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t k_d = task / (K_h * K_w * OC);
        const int64_t k_h = task / (K_w * OC) % K_h;
        const int64_t k_w = task / OC % K_w;
        const int64_t o = task % OC;
        const int64_t diff_weights_at = k_d * diff_weights_stride_d + k_h * diff_weights_stride_h + k_w * diff_weights_stride_w + o * diff_weights_stride_o;
        const int64_t i_d_end = opwright_min(I_d, opwright_floor_div(O_d + PB_d - k_d * D_d - 1, S_d) + 1);
        const int64_t i_d_begin = opwright_max(0, opwright_ceil_div(PB_d - k_d * D_d, S_d));
        const int64_t i_h_end = opwright_min(I_h, opwright_floor_div(O_h + PB_h - k_h * D_h - 1, S_h) + 1);
        const int64_t i_h_begin = opwright_max(0, opwright_ceil_div(PB_h - k_h * D_h, S_h));
        const int64_t i_w_end = opwright_min(I_w, opwright_floor_div(O_w + PB_w - k_w * D_w - 1, S_w) + 1);
        const int64_t i_w_begin = opwright_max(0, opwright_ceil_div(PB_w - k_w * D_w, S_w));
        for (int64_t c_from = 0; c_from < IC; c_from += 64) {
            const int64_t c_to = opwright_min(c_from + 64, IC);
            float sums[64];
            for (int64_t lane = 0; lane < 64; ++lane) {
                sums[lane] = 0.0f;
            }
            for (int64_t n = 0; n < N; ++n) {
                for (int64_t i_d = i_d_begin; i_d < i_d_end; ++i_d) {
                    for (int64_t i_h = i_h_begin; i_h < i_h_end; ++i_h) {
                        for (int64_t i_w = i_w_begin; i_w < i_w_end; ++i_w) {
                            const int64_t src_at = n * src_stride_n + i_d * src_stride_d + i_h * src_stride_h + i_w * src_stride_w;
                            const int64_t diff_dst_at = n * diff_dst_stride_n + (k_d * D_d + i_d * S_d - PB_d) * diff_dst_stride_d + (k_h * D_h + i_h * S_h - PB_h) * diff_dst_stride_h + (k_w * D_w + i_w * S_w - PB_w) * diff_dst_stride_w + o;
                            for (int64_t c = c_from; c < c_to; ++c) {
                                sums[c - c_from] += opwright_from_f16(src[src_at + c]) * opwright_from_f16(diff_dst[diff_dst_at]);
                            }
                        }
                    }
                }
            }
            for (int64_t c = c_from; c < c_to; ++c) {
                diff_weights[diff_weights_at + c] = opwright_to_f16(sums[c - c_from]);
            }
        }
    }
}
