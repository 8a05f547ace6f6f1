// 64 cells along diff_src_w at a time; each adds its terms by k_d, k_h, k_w, the last one fastest.
void convolution_backward_data_f32_ncx_oix_depthwise_portable(
    const float *restrict diff_dst,
    const float *restrict weights,
    float *restrict diff_src,
    const opwright_convolution_backward_data_sizes *sizes, int64_t part, int64_t parts)
{
    const int64_t N = sizes->N;
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
    const int64_t diff_src_stride_n = G * I_d * I_h * I_w;
    const int64_t diff_src_stride_c = I_d * I_h * I_w;
    const int64_t diff_src_stride_d = I_h * I_w;
    const int64_t diff_src_stride_h = I_w;
    const int64_t k_d_step = S_d / opwright_gcd(S_d, D_d);
    const int64_t i_d_step = -(D_d / opwright_gcd(S_d, D_d));
    const int64_t k_h_step = S_h / opwright_gcd(S_h, D_h);
    const int64_t i_h_step = -(D_h / opwright_gcd(S_h, D_h));
    const int64_t diff_dst_stride_n = G * O_d * O_h * O_w;
    const int64_t diff_dst_stride_c = O_d * O_h * O_w;
    const int64_t diff_dst_stride_d = O_h * O_w;
    const int64_t diff_dst_stride_h = O_w;
    const int64_t weights_stride_o = K_d * K_h * K_w;
    const int64_t weights_stride_d = K_h * K_w;
    const int64_t weights_stride_h = K_w;
    const int64_t total = N * G * I_d * I_h;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t n = task / (G * I_d * I_h);
        const int64_t g = task / (I_d * I_h) % G;
        const int64_t diff_src_d = task / I_h % I_d;
        const int64_t diff_src_h = task % I_h;
        const int64_t diff_src_at = n * diff_src_stride_n + g * diff_src_stride_c + diff_src_d * diff_src_stride_d + diff_src_h * diff_src_stride_h;
        const int64_t k_d_end = opwright_min(K_d, opwright_floor_div(diff_src_d + PB_d, D_d) + 1);
        const int64_t k_d_low = opwright_max(0, opwright_ceil_div(diff_src_d + PB_d + S_d - O_d * S_d, D_d));
        const int64_t k_d_begin = opwright_first_multiple(k_d_low, k_d_end, -D_d, diff_src_d + PB_d, S_d);
        const int64_t i_d_begin = (diff_src_d + PB_d - k_d_begin * D_d) / S_d;
        const int64_t k_h_end = opwright_min(K_h, opwright_floor_div(diff_src_h + PB_h, D_h) + 1);
        const int64_t k_h_low = opwright_max(0, opwright_ceil_div(diff_src_h + PB_h + S_h - O_h * S_h, D_h));
        const int64_t k_h_begin = opwright_first_multiple(k_h_low, k_h_end, -D_h, diff_src_h + PB_h, S_h);
        const int64_t i_h_begin = (diff_src_h + PB_h - k_h_begin * D_h) / S_h;
        for (int64_t diff_src_w_from = 0; diff_src_w_from < I_w; diff_src_w_from += 64) {
            const int64_t diff_src_w_to = opwright_min(diff_src_w_from + 64, I_w);
            float sums[64];
            for (int64_t lane = 0; lane < 64; ++lane) {
                sums[lane] = 0.0f;
            }
            for (int64_t k_d = k_d_begin, i_d = i_d_begin; k_d < k_d_end;
                 k_d += k_d_step, i_d += i_d_step) {
                for (int64_t k_h = k_h_begin, i_h = i_h_begin; k_h < k_h_end;
                     k_h += k_h_step, i_h += i_h_step) {
                    const int64_t diff_dst_at = n * diff_dst_stride_n + g * diff_dst_stride_c + i_d * diff_dst_stride_d + i_h * diff_dst_stride_h;
                    for (int64_t k_w = 0; k_w < K_w; ++k_w) {
                        const int64_t i_w_begin = opwright_max(0, opwright_ceil_div(diff_src_w_from + PB_w - k_w * D_w, S_w));
                        const int64_t i_w_end = opwright_min(O_w, opwright_floor_div(diff_src_w_to + PB_w - k_w * D_w - 1, S_w) + 1);
                        const int64_t weights_at = g * weights_stride_o + k_d * weights_stride_d + k_h * weights_stride_h + k_w;
                        const int64_t diff_src_w_at = k_w * D_w - diff_src_w_from - PB_w;
                        for (int64_t i_w = i_w_begin; i_w < i_w_end; ++i_w) {
                            sums[diff_src_w_at + i_w * S_w] += diff_dst[diff_dst_at + i_w] * weights[weights_at];
                        }
                    }
                }
            }
            for (int64_t diff_src_w = diff_src_w_from; diff_src_w < diff_src_w_to; ++diff_src_w) {
                diff_src[diff_src_at + diff_src_w] = sums[diff_src_w - diff_src_w_from];
            }
        }
    }
}
