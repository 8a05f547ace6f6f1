// One cell at a time; each adds its terms by k_d, k_h, k_w, c, the last one fastest.
void conv_transpose_f32_nxc_xoi_dense_portable(
    const float *restrict src,
    const float *restrict weights,
    const float *restrict bias,
    float *restrict dst,
    const opwright_conv_transpose_sizes *sizes, int64_t part, int64_t parts)
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
    const int64_t dst_stride_n = OC * O_d * O_h * O_w;
    const int64_t dst_stride_d = OC * O_h * O_w;
    const int64_t dst_stride_h = OC * O_w;
    const int64_t dst_stride_w = OC;
    const int64_t k_d_step = S_d / opwright_gcd(S_d, D_d);
    const int64_t i_d_step = -(D_d / opwright_gcd(S_d, D_d));
    const int64_t k_h_step = S_h / opwright_gcd(S_h, D_h);
    const int64_t i_h_step = -(D_h / opwright_gcd(S_h, D_h));
    const int64_t k_w_step = S_w / opwright_gcd(S_w, D_w);
    const int64_t i_w_step = -(D_w / opwright_gcd(S_w, D_w));
    const int64_t src_stride_n = IC * I_d * I_h * I_w;
    const int64_t src_stride_d = IC * I_h * I_w;
    const int64_t src_stride_h = IC * I_w;
    const int64_t src_stride_w = IC;
    const int64_t weights_stride_d = IC * K_h * K_w * OC;
    const int64_t weights_stride_h = IC * K_w * OC;
    const int64_t weights_stride_w = IC * OC;
    const int64_t weights_stride_o = IC;
    const int64_t total = N * O_d * O_h * O_w;
    const int64_t task_end = opwright_share(total, part + 1, parts);
    for (int64_t task = opwright_share(total, part, parts); task < task_end; ++task) {
        const int64_t n = task / (O_d * O_h * O_w);
        const int64_t dst_d = task / (O_h * O_w) % O_d;
        const int64_t dst_h = task / O_w % O_h;
        const int64_t dst_w = task % O_w;
        const int64_t k_d_end = opwright_min(K_d, opwright_floor_div(dst_d + PB_d, D_d) + 1);
        const int64_t k_d_low = opwright_max(0, opwright_ceil_div(dst_d + PB_d + S_d - I_d * S_d, D_d));
        const int64_t k_d_begin = opwright_first_multiple(k_d_low, k_d_end, -D_d, dst_d + PB_d, S_d);
        const int64_t i_d_begin = (dst_d + PB_d - k_d_begin * D_d) / S_d;
        const int64_t k_h_end = opwright_min(K_h, opwright_floor_div(dst_h + PB_h, D_h) + 1);
        const int64_t k_h_low = opwright_max(0, opwright_ceil_div(dst_h + PB_h + S_h - I_h * S_h, D_h));
        const int64_t k_h_begin = opwright_first_multiple(k_h_low, k_h_end, -D_h, dst_h + PB_h, S_h);
        const int64_t i_h_begin = (dst_h + PB_h - k_h_begin * D_h) / S_h;
        const int64_t k_w_end = opwright_min(K_w, opwright_floor_div(dst_w + PB_w, D_w) + 1);
        const int64_t k_w_low = opwright_max(0, opwright_ceil_div(dst_w + PB_w + S_w - I_w * S_w, D_w));
        const int64_t k_w_begin = opwright_first_multiple(k_w_low, k_w_end, -D_w, dst_w + PB_w, S_w);
        const int64_t i_w_begin = (dst_w + PB_w - k_w_begin * D_w) / S_w;
        for (int64_t o = 0; o < OC; ++o) {
            const int64_t dst_at = n * dst_stride_n + dst_d * dst_stride_d + dst_h * dst_stride_h + dst_w * dst_stride_w + o;
            float sum = 0.0f;
            for (int64_t k_d = k_d_begin, i_d = i_d_begin; k_d < k_d_end;
                 k_d += k_d_step, i_d += i_d_step) {
                for (int64_t k_h = k_h_begin, i_h = i_h_begin; k_h < k_h_end;
                     k_h += k_h_step, i_h += i_h_step) {
                    for (int64_t k_w = k_w_begin, i_w = i_w_begin; k_w < k_w_end;
                         k_w += k_w_step, i_w += i_w_step) {
                        const int64_t src_at = n * src_stride_n + i_d * src_stride_d + i_h * src_stride_h + i_w * src_stride_w;
                        const int64_t weights_at = k_d * weights_stride_d + k_h * weights_stride_h + k_w * weights_stride_w + o * weights_stride_o;
                        for (int64_t c = 0; c < IC; ++c) {
                            sum += src[src_at + c] * weights[weights_at + c];
                        }
                    }
                }
            }
            dst[dst_at] = sum + (bias ? bias[o] : 0);
        }
    }
}
