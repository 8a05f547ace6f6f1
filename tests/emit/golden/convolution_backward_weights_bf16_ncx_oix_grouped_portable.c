// One cell at a time; each adds its terms by n, i_d, i_h, i_w, the last one fastest.
void convolution_backward_weights_bf16_ncx_oix_grouped_portable(
    const opwright_bf16 *restrict src,
    const opwright_bf16 *restrict diff_dst,
    opwright_bf16 *restrict diff_weights,
    const opwright_convolution_backward_weights_sizes *sizes, int64_t part, int64_t parts)
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
    const int64_t diff_weights_stride_o = K_d * K_h * K_w * IC_per_G;
    const int64_t diff_weights_stride_i = K_d * K_h * K_w;
    const int64_t diff_weights_stride_d = K_h * K_w;
    const int64_t diff_weights_stride_h = K_w;
    const int64_t src_stride_n = IC * I_d * I_h * I_w;
    const int64_t src_stride_c = I_d * I_h * I_w;
    const int64_t src_stride_d = I_h * I_w;
    const int64_t src_stride_h = I_w;
    const int64_t src_step = S_w;
    const int64_t diff_dst_stride_n = OC * O_d * O_h * O_w;
    const int64_t diff_dst_stride_c = O_d * O_h * O_w;
    const int64_t diff_dst_stride_d = O_h * O_w;
    const int64_t diff_dst_stride_h = O_w;
    const int64_t total = G * OC_per_G * IC_per_G * K_d * K_h;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t g = task / (OC_per_G * IC_per_G * K_d * K_h);
        const int64_t o = task / (IC_per_G * K_d * K_h) % OC_per_G;
        const int64_t c = task / (K_d * K_h) % IC_per_G;
        const int64_t k_d = task / K_h % K_d;
        const int64_t k_h = task % K_h;
        const int64_t i_d_end = opwright_min(O_d, opwright_floor_div(I_d + PB_d - k_d * D_d - 1, S_d) + 1);
        const int64_t i_d_begin = opwright_max(0, opwright_ceil_div(PB_d - k_d * D_d, S_d));
        const int64_t i_h_end = opwright_min(O_h, opwright_floor_div(I_h + PB_h - k_h * D_h - 1, S_h) + 1);
        const int64_t i_h_begin = opwright_max(0, opwright_ceil_div(PB_h - k_h * D_h, S_h));
        for (int64_t k_w = 0; k_w < K_w; ++k_w) {
            const int64_t diff_weights_at = (g * OC_per_G + o) * diff_weights_stride_o + c * diff_weights_stride_i + k_d * diff_weights_stride_d + k_h * diff_weights_stride_h + k_w;
            const int64_t i_w_begin = opwright_max(0, opwright_ceil_div(PB_w - k_w * D_w, S_w));
            const int64_t i_w_end = opwright_min(O_w, opwright_floor_div(I_w + PB_w - k_w * D_w - 1, S_w) + 1);
            float sum = 0.0f;
            for (int64_t n = 0; n < N; ++n) {
                for (int64_t i_d = i_d_begin; i_d < i_d_end; ++i_d) {
                    for (int64_t i_h = i_h_begin; i_h < i_h_end; ++i_h) {
                        const int64_t src_at = n * src_stride_n + (g * IC_per_G + c) * src_stride_c + (k_d * D_d + i_d * S_d - PB_d) * src_stride_d + (k_h * D_h + i_h * S_h - PB_h) * src_stride_h + k_w * D_w - PB_w;
                        const int64_t diff_dst_at = n * diff_dst_stride_n + (g * OC_per_G + o) * diff_dst_stride_c + i_d * diff_dst_stride_d + i_h * diff_dst_stride_h;
                        for (int64_t i_w = i_w_begin; i_w < i_w_end; ++i_w) {
                            sum += opwright_from_bf16(src[src_at + i_w * src_step]) * opwright_from_bf16(diff_dst[diff_dst_at + i_w]);
                        }
                    }
                }
            }
            diff_weights[diff_weights_at] = opwright_to_bf16(sum);
        }
    }
}
