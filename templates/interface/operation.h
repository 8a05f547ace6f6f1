// The tables of an operation, and how a call becomes a call of a kernel.

#ifndef OPWRIGHT_OPERATION_H
#define OPWRIGHT_OPERATION_H

#include "contraction.h"
#include "instruction_sets.h"
#include "opwright_product.h"
#include "resolve.h"

typedef struct opw_dtype_name {
    const char *word, *numpy;
    int64_t size;
} opw_dtype_name;

extern const opw_dtype_name opw_dtype_names[OPWRIGHT_DTYPES];

typedef void opw_function(void);

// An instruction set: the features that it needs, separated by blanks.
typedef struct opw_isa {
    const char *name, *needs;
} opw_isa;

extern const opw_isa opw_isas[OPWRIGHT_ISAS];

// The number of the best instruction set that this CPU has and OPWRIGHT_ISA allows among those with a function.
// -1 if OPWRIGHT_ISA names an unknown one.
int64_t opw_best(opw_function *const functions[OPWRIGHT_ISAS]);

typedef struct opw_pair {
    const char *name, *value;
} opw_pair;

// The place of an argument in a call's struct.
typedef struct opw_argument {
    const char *name;
    size_t at;
    bool optional;
    bool states_shape;
    const char *joined;     // of a list of tensors, the axis along which they are joined
    const uint64_t *absent; // by row, the bits of the element that an omitted input reads as
} opw_argument;

// Kernels of one dtype row, words of layouts and group class, by instruction set.
typedef struct opw_stem {
    int64_t row;
    const char *words[4];
    const char *group;
    opw_function *kernels[OPWRIGHT_ISAS], *scratch[OPWRIGHT_ISAS];
} opw_stem;

enum opw_field_kind {
    OPWRIGHT_VALUE,
    OPWRIGHT_REAL,
    OPWRIGHT_RANK,
    OPWRIGHT_EXTENTS,
    OPWRIGHT_WORD,
    OPWRIGHT_ABSENT,
    OPWRIGHT_STRIDE,
    OPWRIGHT_AT,
    OPWRIGHT_BYTES,
    OPWRIGHT_LANES,
    OPWRIGHT_PRODUCTS,
    OPWRIGHT_OPERANDS,
    OPWRIGHT_BLOCKS,
    OPWRIGHT_EACH,
};

// A member of the struct of sizes.
typedef struct opw_field {
    enum opw_field_kind kind;
    size_t at;
    const char *name, *of, *axis;
    int64_t length, neutral;
} opw_field;

enum opw_role { OPWRIGHT_INPUT, OPWRIGHT_LISTED, OPWRIGHT_WRITTEN };

// An array that kernels of steps take: its axes, each with the symbol of its run or "".
typedef struct opw_array_info {
    const char *name;
    enum opw_role role;
    opwright_dtype dtype;        // of a list
    size_t at;                   // of a list: its place in the call, and its default
    const opwright_list *ints;
    const opwright_reals *reals;
    const opw_pair *axes;   // ends with one that has no name
    const opw_pair *sizes;  // for joined inputs, axis to the symbol of its extent
} opw_array_info;

typedef struct opw_lanes {
    const char *letter;
    bool own, moves, apart; // apart: neighbours lie apart in sums of an engine
    bool joins; // rows are of all axes of the letter where these lie as one in all arrays
    int64_t views; // where neighbours lie less than so many cells apart, it serves; 0: wherever they do
    int64_t terms; // for several steps, the number of letters of those that walk it
    const opw_pair *walks; // arrays and their axes
    const char *const *serves; // where cells are kept for several tasks, the letters of these
    const char *const *kept; // and those that the kept cells have besides
    const opw_pair *turns; // arrays and their axes along which rows are turned for several tasks at once
    const opw_pair *follows; // and those along which rows of the letter may follow one another
    bool copies; // whether the phase only copies rows along it, those of several tasks together
    int64_t least; // cells of rows that follow one another
    const opw_pair *beside; // arrays and their axes that are one with those of the letter, the innermost first
} opw_lanes;

typedef struct opw_phase {
    int64_t count;
    const opw_lanes *letters;
} opw_phase;

typedef struct opw_accessed {
    const char *array;
    const opw_pair *letters; // axis to letter
} opw_accessed;

// A zero point: a value of the call, or a number if the name is NULL; a name that no value has if it is neither.
typedef struct opw_zero {
    const char *name;
    int64_t number;
} opw_zero;

// Products; or squares of differences, or their absolute values.
typedef enum opw_term { OPWRIGHT_OF_PRODUCTS, OPWRIGHT_OF_SQUARES, OPWRIGHT_OF_DISTANCES } opw_term;

typedef struct opw_product_of {
    int64_t phase, copy; // the phase that copies its sums to an output
    const char *unless;
    opw_accessed output, target, left, right; // an output without a name: none
    const char *const *finish;
    const char *const *unless_empty; // letters: nothing is added where one of them has no values
    opw_term term;     // what is summed of each pair of elements
    const opwright_dtype *dtypes[2]; // of left and right in each row, if they lie between steps; NULL: what the row adds up in
    opw_zero zeros[2]; // subtracted from left and right
} opw_product_of;

// The numbers of the contractions of several factors, the arrays that any of them reads, and for each other order of pairs
// as many contractions that may take their phases.
typedef struct opw_orders {
    int64_t count, others;
    const int64_t *numbers;
    const char *const *operands;
    const opw_product_of *products;
} opw_orders;

// Phases [first, last) that calls may run by blocks: the letters of their tasks, the arrays that they leave for each other,
// each with the bytes of its elements by row, and the phases whose own functions run, with the lanes they may have, as
// digits. The last of the phases has no lanes.
typedef struct opw_block_array {
    const char *name;
    const int64_t *sizes;
} opw_block_array;

typedef struct opw_block_rows {
    int64_t phase;
    const char *lanes;
} opw_block_rows;

typedef struct opw_block_phases {
    int64_t first, last;
    const char *const *letters;
    int64_t count;
    const opw_block_array *arrays;
    const opw_block_rows *rows;
} opw_block_phases;

// Sizes from the outermost to the innermost that kernels do not tell apart: the letters of each, and by array the axes
// that have them, and bits of the phases that tell them apart with lanes along the last of their letters. The last of a
// list has no sizes, and the last array no name.
typedef struct opw_chained {
    const char *array;
    const char *const *axes;
} opw_chained;

typedef struct opw_chain {
    int64_t count;
    const char *const *sizes, *const *const *letters;
    const opw_chained *axes;
    uint64_t apart;
} opw_chain;

typedef struct opw_word_list {
    const char *name;
    const char *const *words;
} opw_word_list;

typedef struct opw_operation {
    const char *name;
    bool steps;
    int64_t input_count, output_count, row_count;
    const opw_argument *inputs, *outputs;
    const opwright_dtype *rows; // of each row the inputs', then the outputs'
    const opwright_dtype *accumulate;
    bool integers; // whether some array between steps holds integers of 64 bits in all rows
    void (*resolve)(opw_context *x);
    // Passes arrays to a kernel of a row: the inputs, lists and outputs, in the kernel's order.
    void (*const *run)(opw_function *kernel, void *const *at, const void *sizes, const opwright_team *team,
                       void *scratch);
    void (*const *run_part)(opw_function *kernel, void *const *at, const void *sizes, int64_t part, int64_t parts);
    int64_t (*scratch)(opw_function *kernel, const void *sizes, int64_t workers);
    const opw_stem *stems;
    int64_t stem_count;
    const char *const *layouts; // the words that select a stem
    const opw_field *fields;
    int64_t field_count;
    const opw_pair *rules, *values; // places in the spec; the last one has no rule
    // Of operations of steps.
    const opw_array_info *arrays;
    int64_t array_count, phase_count, product_count;
    const opw_phase *phases;
    const opw_product_of *products;
    const opw_orders *orders; // the last one has none; NULL: none
    const opw_block_phases *blocks; // NULL: none
    const opw_chain *chains; // NULL: none
    const opw_pair *exchanged; // runs that kernels do not tell apart, the outer one first; the last has none
    const opw_word_list *words;
    const char *in_place; // by output and input, in rows of inputs: whether they may be the same cells
    const char *joined_axis, *joined_size; // of the input whose arrays are processed one after the other; NULL: none
    const struct opw_operation *fitting; // the program for calls whose sizes fit, which refuses others; NULL: none
} opw_operation;

// An array of a call, as kernels walk it; strides are in elements.
typedef struct opw_array {
    bool given;
    opwright_dtype dtype;
    int64_t ndim;
    int64_t shape[OPWRIGHT_AXES], strides[OPWRIGHT_AXES];
    char *data;
    const opw_places *places;
} opw_array;

// An engine of contractions of a dtype, for one instruction set.
typedef struct opw_engine {
    opwright_product_function *run;
    int64_t (*scratch)(const void *problem, int64_t workers);
    // Of blocks of rows; NULL if there are none.
    opwright_pack_function *pack;
    opwright_block_function *block;
    int64_t (*rows)(const void *problem, int64_t tasks, const int64_t *cells);
    int64_t (*packed)(const void *problem, int64_t all);
    int64_t (*copied)(const void *problem);
    int64_t (*block_scratch)(const void *problem, int64_t rows);
} opw_engine;

enum { OPWRIGHT_ENGINES = 9 };

extern const opw_engine opw_engines[OPWRIGHT_ENGINES][OPWRIGHT_ISAS]; // f32, bf16, f16, bytes, squares, distances, f64, s64, s32

typedef struct opw_prepared {
    const opw_engine *engine; // NULL: loops compute it
    int64_t destination;
    bool by_blocks;
    int64_t packed; // where what it packs for blocks begins
    opwright_contraction problem;
} opw_prepared;

// The blocks of a call: none if their count is 0.
typedef struct opw_blocked {
    opwright_blocks blocks;
    int64_t copied;                                  // bytes, while operands are packed
    int64_t at[OPWRIGHT_BLOCK_ARRAYS], each[OPWRIGHT_BLOCK_ARRAYS]; // of arrays: the place in a block, the bytes of a task
} opw_blocked;

typedef struct opw_plan {
    uint64_t without;     // bits of phases whose last letter lanes may not go along
    int64_t shared, task; // bytes of scratch, of all workers and of each
    int64_t product_count;
    const opw_product_of *of[OPWRIGHT_PRODUCTS_OF]; // of the order of pairs that the call takes
    opw_prepared products[OPWRIGHT_PRODUCTS_OF];
    opw_blocked blocked;
} opw_plan;

// Puts axes of a call together, in its arrays and in what is known of it, of chains that no phase tells apart; or, with
// what a call without these is planned as, of those that only phases with lanes along other letters do.
void opw_collapse(opw_context *x, opw_array *arrays);
bool opw_collapse_more(opw_context *x, opw_array *arrays, const void *sizes, opw_plan *plan);
const int64_t *opw_lanes_of(const opw_operation *op, const void *sizes);
// Fills in the struct of sizes of a call of steps.
void opw_plan_steps(const opw_context *x, const opw_array *arrays, void *sizes, opw_plan *plan);
void opw_plan_products(const opw_context *x, const opw_array *arrays, const int64_t *lanes,
                            opw_plan *plan);
void opw_plan_blocks(const opw_context *x, const int64_t *lanes, opw_plan *plan);
const opw_array *opw_array_of(const opw_operation *op, const opw_array *arrays, const char *name);
opw_extent opw_spots_of(const opw_places *places, const char *axis, opw_int *room);
void opw_put_values(int64_t *at, const opw_field *field, opw_extent value);
int64_t opw_plan_bytes(const opw_plan *plan, int64_t workers);

// The status of a call, and the message of its refusal.
int opw_report(opw_context *x, opwright_error *error);

extern const opw_pair opw_sections[]; // sections of the page on calls, by rule prefix; the first one is the default

// Called by generated functions: `sizes` is memory for the struct of sizes, of `size` bytes.
int opw_run_call(const opw_operation *op, const void *call, void *sizes, size_t size, const opwright_run *run,
                      opwright_error *error);
int opw_workspace_of(const opw_operation *op, const void *call, void *sizes, size_t size,
                          const opwright_run *run, opwright_memory *memory, opwright_error *error);
int opw_infer_call(const opw_operation *op, const void *call, opwright_shape *shapes, opwright_error *error);

#endif
