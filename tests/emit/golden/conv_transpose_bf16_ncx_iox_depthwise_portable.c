// 64 cells along dst_w at a time; each adds its terms by k_d, k_h, k_w, the last one fastest.
void conv_transpose_bf16_ncx_iox_depthwise_portable(
    const opwright_bf16 *restrict src,
    const opwright_bf16 *restrict weights,
    const opwright_bf16 *restrict bias,
    opwright_bf16 *restrict dst,
    const opwright_conv_transpose_sizes *sizes, int64_t part, int64_t parts)
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
    const int64_t dst_stride_n = G * O_d * O_h * O_w;
    const int64_t dst_stride_c = O_d * O_h * O_w;
    const int64_t dst_stride_d = O_h * O_w;
    const int64_t dst_stride_h = O_w;
    const int64_t k_d_step = S_d / opwright_gcd(S_d, D_d);
    const int64_t i_d_step = -(D_d / opwright_gcd(S_d, D_d));
    const int64_t k_h_step = S_h / opwright_gcd(S_h, D_h);
    const int64_t i_h_step = -(D_h / opwright_gcd(S_h, D_h));
    const int64_t src_stride_n = G * I_d * I_h * I_w;
    const int64_t src_stride_c = I_d * I_h * I_w;
    const int64_t src_stride_d = I_h * I_w;
    const int64_t src_stride_h = I_w;
    const int64_t weights_stride_i = K_d * K_h * K_w;
    const int64_t weights_stride_d = K_h * K_w;
    const int64_t weights_stride_h = K_w;
    const int64_t total = N * G * O_d * O_h;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t n = task / (G * O_d * O_h);
        const int64_t g = task / (O_d * O_h) % G;
        const int64_t dst_d = task / O_h % O_d;
        const int64_t dst_h = task % O_h;
        const int64_t dst_at = n * dst_stride_n + g * dst_stride_c + dst_d * dst_stride_d + dst_h * dst_stride_h;
        const int64_t k_d_end = opwright_min(K_d, opwright_floor_div(dst_d + PB_d, D_d) + 1);
        const int64_t k_d_low = opwright_max(0, opwright_ceil_div(dst_d + PB_d + S_d - I_d * S_d, D_d));
        const int64_t k_d_begin = opwright_first_multiple(k_d_low, k_d_end, -D_d, dst_d + PB_d, S_d);
        const int64_t i_d_begin = (dst_d + PB_d - k_d_begin * D_d) / S_d;
        const int64_t k_h_end = opwright_min(K_h, opwright_floor_div(dst_h + PB_h, D_h) + 1);
        const int64_t k_h_low = opwright_max(0, opwright_ceil_div(dst_h + PB_h + S_h - I_h * S_h, D_h));
        const int64_t k_h_begin = opwright_first_multiple(k_h_low, k_h_end, -D_h, dst_h + PB_h, S_h);
        const int64_t i_h_begin = (dst_h + PB_h - k_h_begin * D_h) / S_h;
        for (int64_t dst_w_from = 0; dst_w_from < O_w; dst_w_from += 64) {
            const int64_t dst_w_to = opwright_min(dst_w_from + 64, O_w);
            float sums[64];
            for (int64_t lane = 0; lane < 64; ++lane) {
                sums[lane] = 0.0f;
            }
            for (int64_t k_d = k_d_begin, i_d = i_d_begin; k_d < k_d_end;
                 k_d += k_d_step, i_d += i_d_step) {
                for (int64_t k_h = k_h_begin, i_h = i_h_begin; k_h < k_h_end;
                     k_h += k_h_step, i_h += i_h_step) {
                    const int64_t src_at = n * src_stride_n + g * src_stride_c + i_d * src_stride_d + i_h * src_stride_h;
                    for (int64_t k_w = 0; k_w < K_w; ++k_w) {
                        const int64_t i_w_begin = opwright_max(0, opwright_ceil_div(dst_w_from + PB_w - k_w * D_w, S_w));
                        const int64_t i_w_end = opwright_min(I_w, opwright_floor_div(dst_w_to + PB_w - k_w * D_w - 1, S_w) + 1);
                        const int64_t weights_at = g * weights_stride_i + k_d * weights_stride_d + k_h * weights_stride_h + k_w;
                        const int64_t dst_w_at = k_w * D_w - dst_w_from - PB_w;
                        for (int64_t i_w = i_w_begin; i_w < i_w_end; ++i_w) {
                            sums[dst_w_at + i_w * S_w] += opwright_from_bf16(src[src_at + i_w]) * opwright_from_bf16(weights[weights_at]);
                        }
                    }
                }
            }
            for (int64_t dst_w = dst_w_from; dst_w < dst_w_to; ++dst_w) {
                dst[dst_at + dst_w] = opwright_to_bf16(sums[dst_w - dst_w_from] + (bias ? opwright_from_bf16(bias[g]) : 0));
            }
        }
    }
}
