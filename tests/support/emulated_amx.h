// The matrix registers of AMX by loops, so that a CPU without them runs the code for them: see spec_packages.py.
//
// Included before everything else. What the manual has #UD or #GP for ends the process with a message that names it.

#if defined(__AMX_TILE__) && !defined(OPWRIGHT_AMX_INSTRUCTIONS_H)
#define OPWRIGHT_AMX_INSTRUCTIONS_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMU_TILES = 8, EMU_TILE_ROWS = 16, EMU_ROW_BYTES = 64 };

typedef struct emu_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} emu_shapes;

typedef struct emu_registers {
    emu_shapes shapes;
    uint8_t tile[EMU_TILES][EMU_TILE_ROWS][EMU_ROW_BYTES];
} emu_registers;

// One for each thread, whichever of a library's objects uses it.
__attribute__((weak)) _Thread_local emu_registers emu_amx;

#define EMU_AMX static __attribute__((unused, noinline, optimize("O3")))

EMU_AMX void emu_misused(const char *instruction, const char *how) {
    fprintf(stderr, "emulated AMX: %s %s\n", instruction, how);
    abort();
}
#define EMU_REFUSE(wrong) do { if (wrong) emu_misused(name, "where " #wrong); } while (0)

EMU_AMX void emu_ldtilecfg(const void *from) {
    const char *const name = "ldtilecfg";
    static const emu_shapes none;
    emu_shapes shapes;
    memcpy(&shapes, from, sizeof shapes);
    EMU_REFUSE(shapes.palette > 1);
    memset(&emu_amx, 0, sizeof emu_amx);
    if (shapes.palette == 0)
        return;
    EMU_REFUSE(shapes.start_row != 0);
    EMU_REFUSE(memcmp(shapes.reserved, none.reserved, sizeof none.reserved) != 0);
    for (int t = 0; t < 16; t++) {
        EMU_REFUSE(t >= EMU_TILES && (shapes.rows[t] != 0 || shapes.row_bytes[t] != 0));
        EMU_REFUSE(shapes.rows[t] > EMU_TILE_ROWS);
        EMU_REFUSE(shapes.row_bytes[t] > EMU_ROW_BYTES);
        EMU_REFUSE((shapes.rows[t] == 0) != (shapes.row_bytes[t] == 0));
    }
    emu_amx.shapes = shapes;
}

EMU_AMX void emu_sttilecfg(void *to) { memcpy(to, &emu_amx.shapes, sizeof emu_amx.shapes); }

EMU_AMX int emu_shaped(int t) { return emu_amx.shapes.palette == 1 && emu_amx.shapes.rows[t] != 0; }

EMU_AMX void emu_tilezero(int t) {
    const char *const name = "tilezero";
    EMU_REFUSE(!emu_shaped(t));
    memset(emu_amx.tile[t], 0, sizeof emu_amx.tile[t]);
}

EMU_AMX void emu_tileloadd(int t, const void *from, int64_t step) {
    const char *const name = "tileloadd";
    EMU_REFUSE(!emu_shaped(t));
    memset(emu_amx.tile[t], 0, sizeof emu_amx.tile[t]);
    for (int r = 0; r < emu_amx.shapes.rows[t]; r++)
        memcpy(emu_amx.tile[t][r], (const char *)from + r * step, emu_amx.shapes.row_bytes[t]);
}

EMU_AMX void emu_tilestored(int t, void *to, int64_t step) {
    const char *const name = "tilestored";
    EMU_REFUSE(!emu_shaped(t));
    for (int r = 0; r < emu_amx.shapes.rows[t]; r++)
        memcpy((char *)to + r * step, emu_amx.tile[t][r], emu_amx.shapes.row_bytes[t]);
}

EMU_AMX void emu_product(const char *name, int sum, int left, int right) {
    const emu_shapes *const s = &emu_amx.shapes;
    EMU_REFUSE(!emu_shaped(sum) || !emu_shaped(left) || !emu_shaped(right));
    EMU_REFUSE(sum == left || left == right || sum == right);
    EMU_REFUSE(s->rows[sum] != s->rows[left]);
    EMU_REFUSE(s->row_bytes[sum] != s->row_bytes[right]);
    EMU_REFUSE(s->row_bytes[left] != 4 * s->rows[right]);
    EMU_REFUSE(s->row_bytes[sum] % 4 != 0);
}

// Each row's sums of the first and of the second terms of pairs, from 0 on, fused and without denormals; then both are added,
// and that to what was there.
EMU_AMX void emu_sums_of_pairs(int sum, int left, int right) {
    for (int m = 0; m < emu_amx.shapes.rows[sum]; m++) {
        float of_pairs[EMU_ROW_BYTES / 2] = {0}, sums[EMU_ROW_BYTES / 4];
        for (int k = 0; k < emu_amx.shapes.rows[right]; k++) {
            uint16_t own[2], other[EMU_ROW_BYTES / 2];
            uint32_t a[2], b[EMU_ROW_BYTES / 2];
            float scalar[2], vector[EMU_ROW_BYTES / 2];
            memcpy(own, emu_amx.tile[left][m] + 4 * k, sizeof own);
            memcpy(other, emu_amx.tile[right][k], sizeof other);
            for (int i = 0; i < 2; i++)
                a[i] = (uint32_t)own[i] << 16;
            for (int i = 0; i < EMU_ROW_BYTES / 2; i++)
                b[i] = (uint32_t)other[i] << 16;
            memcpy(scalar, a, sizeof scalar);
            memcpy(vector, b, sizeof vector);
            for (int i = 0; i < EMU_ROW_BYTES / 2; i++)
                of_pairs[i] = __builtin_fmaf(scalar[i % 2], vector[i], of_pairs[i]);
        }
        memcpy(sums, emu_amx.tile[sum][m], sizeof sums);
        for (int n = 0; n < emu_amx.shapes.row_bytes[sum] / 4; n++)
            sums[n] += of_pairs[2 * n] + of_pairs[2 * n + 1];
        memcpy(emu_amx.tile[sum][m], sums, sizeof sums);
    }
}

EMU_AMX void emu_tdpbf16ps(int sum, int left, int right) {
    const unsigned before = __builtin_ia32_stmxcsr();
    emu_product("tdpbf16ps", sum, left, right);
    __builtin_ia32_ldmxcsr(0x9fc0); // nothing is raised; denormals are 0; to nearest
    emu_sums_of_pairs(sum, left, right);
    __builtin_ia32_ldmxcsr(before);
}

#define EMU_BYTES(name, left_type, right_type)                                                                         \
    EMU_AMX void emu_##name(int sum, int left, int right) {                                                            \
        emu_product(#name, sum, left, right);                                                                          \
        for (int m = 0; m < emu_amx.shapes.rows[sum]; m++) {                                                           \
            uint32_t sums[EMU_ROW_BYTES / 4];                                                                          \
            memcpy(sums, emu_amx.tile[sum][m], sizeof sums);                                                           \
            for (int k = 0; k < emu_amx.shapes.row_bytes[left]; k++)                                                   \
                for (int n = 0; n < emu_amx.shapes.row_bytes[sum] / 4; n++)                                            \
                    sums[n] += (uint32_t)((left_type)emu_amx.tile[left][m][k] *                                        \
                                          (right_type)emu_amx.tile[right][k / 4][4 * n + k % 4]);                      \
            memcpy(emu_amx.tile[sum][m], sums, sizeof sums);                                                           \
        }                                                                                                              \
    }
EMU_BYTES(tdpbssd, int8_t, int8_t)
EMU_BYTES(tdpbsud, int8_t, uint8_t)
EMU_BYTES(tdpbusd, uint8_t, int8_t)
EMU_BYTES(tdpbuud, uint8_t, uint8_t)

#define AMX_SHAPE(shapes) emu_ldtilecfg(&(shapes))
#define AMX_SHAPES(shapes) emu_sttilecfg(&(shapes))
#define AMX_CLEAR(to) emu_tilezero(to)
#define AMX_LOAD(to, from, step) emu_tileloadd(to, from, step)
#define AMX_STORE(from, to, step) emu_tilestored(from, to, step)
#define AMX_PRODUCT(instruction, sum, scalars, vectors) emu_##instruction(sum, scalars, vectors)
#endif
