// 64 cells along i_w at a time; each adds its terms by k_d, k_h, k_w, o, the last one fastest.
void conv_transpose_backward_data_f32_ncx_iox_grouped_portable(
    const float *restrict diff_dst,
    const float *restrict weights,
    float *restrict diff_src,
    const opwright_conv_transpose_backward_data_sizes *sizes, int64_t part, int64_t parts)
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
    const int64_t weights_arrangement = sizes->weights_arrangement;
    const int64_t IC_per_G = IC / G;
    const int64_t OC_per_G = OC / G;
    const int64_t diff_src_stride_n = IC * I_d * I_h * I_w;
    const int64_t diff_src_stride_c = I_d * I_h * I_w;
    const int64_t diff_src_stride_d = I_h * I_w;
    const int64_t diff_src_stride_h = I_w;
    const int64_t diff_dst_stride_n = OC * O_d * O_h * O_w;
    const int64_t diff_dst_stride_c = O_d * O_h * O_w;
    const int64_t diff_dst_stride_d = O_h * O_w;
    const int64_t diff_dst_stride_h = O_w;
    const int64_t diff_dst_step = S_w;
    const int64_t weights_stride_g = weights_arrangement == 0 ? K_d * K_h * K_w * OC_per_G * IC_per_G : K_d * K_h * K_w * OC_per_G;
    const int64_t weights_stride_c = weights_arrangement == 0 ? K_d * K_h * K_w * OC_per_G : K_d * K_h * K_w * OC;
    const int64_t weights_stride_o = K_d * K_h * K_w;
    const int64_t weights_stride_k_d = K_h * K_w;
    const int64_t weights_stride_k_h = K_w;
    const int64_t total = N * G * IC_per_G * I_d * I_h;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t n = task / (G * IC_per_G * I_d * I_h);
        const int64_t g = task / (IC_per_G * I_d * I_h) % G;
        const int64_t c = task / (I_d * I_h) % IC_per_G;
        const int64_t i_d = task / I_h % I_d;
        const int64_t i_h = task % I_h;
        const int64_t diff_src_at = n * diff_src_stride_n + (g * IC_per_G + c) * diff_src_stride_c + i_d * diff_src_stride_d + i_h * diff_src_stride_h;
        const int64_t k_d_end = opwright_min(K_d, opwright_floor_div(O_d + PB_d - i_d * S_d - 1, D_d) + 1);
        const int64_t k_d_begin = opwright_max(0, opwright_ceil_div(PB_d - i_d * S_d, D_d));
        const int64_t k_h_end = opwright_min(K_h, opwright_floor_div(O_h + PB_h - i_h * S_h - 1, D_h) + 1);
        const int64_t k_h_begin = opwright_max(0, opwright_ceil_div(PB_h - i_h * S_h, D_h));
        for (int64_t i_w_from = 0; i_w_from < I_w; i_w_from += 64) {
            const int64_t i_w_to = opwright_min(i_w_from + 64, I_w);
            float sums[64];
            for (int64_t lane = 0; lane < 64; ++lane) {
                sums[lane] = 0.0f;
            }
            for (int64_t k_d = k_d_begin; k_d < k_d_end; ++k_d) {
                for (int64_t k_h = k_h_begin; k_h < k_h_end; ++k_h) {
                    for (int64_t k_w = 0; k_w < K_w; ++k_w) {
                        const int64_t i_w_begin = opwright_max(i_w_from, opwright_ceil_div(PB_w - k_w * D_w, S_w));
                        const int64_t i_w_end = opwright_min(i_w_to, opwright_floor_div(O_w + PB_w - k_w * D_w - 1, S_w) + 1);
                        for (int64_t o = 0; o < OC_per_G; ++o) {
                            const int64_t diff_dst_at = n * diff_dst_stride_n + (g * OC_per_G + o) * diff_dst_stride_c + (i_d * S_d + k_d * D_d - PB_d) * diff_dst_stride_d + (i_h * S_h + k_h * D_h - PB_h) * diff_dst_stride_h + k_w * D_w - PB_w;
                            const int64_t weights_at = g * weights_stride_g + c * weights_stride_c + o * weights_stride_o + k_d * weights_stride_k_d + k_h * weights_stride_k_h + k_w;
                            for (int64_t i_w = i_w_begin; i_w < i_w_end; ++i_w) {
                                sums[i_w - i_w_from] += diff_dst[diff_dst_at + i_w * diff_dst_step] * weights[weights_at];
                            }
                        }
                    }
                }
            }
            for (int64_t i_w = i_w_from; i_w < i_w_to; ++i_w) {
                diff_src[diff_src_at + i_w] = sums[i_w - i_w_from];
            }
        }
    }
}
