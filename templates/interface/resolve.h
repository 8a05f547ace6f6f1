// Resolving a call: the values that generated functions compute with, and the rules that they call.
//
// The rules are those of the package's Python modules _rules.py and _axes.py, name by name and word by word. The first
// broken rule is stored in the context; later results do not matter, and stay within
// their bounds. Functions that return a number return 0 then.

#ifndef OPWRIGHT_RESOLVE_H
#define OPWRIGHT_RESOLVE_H

#include <stddef.h>

#include "opwright_calls.h"

// Sizes, whose sums and products may exceed int64; they saturate.
__extension__ typedef __int128 opw_int;

enum {
    OPWRIGHT_AXES = OPWRIGHT_MAX_AXES,
    OPWRIGHT_ENTRIES = 40, // names of a dictionary
    OPWRIGHT_POOL = 256,   // numbers of a dictionary
    OPWRIGHT_INPUTS = 12,  // tensors that a call is given
    OPWRIGHT_PLACED = 12,  // axes of a tensor, with names
    OPWRIGHT_WORDS = 8,    // attributes that are words
};
#define OPWRIGHT_NONE INT64_MIN // an option that a rule does not have

typedef struct opw_ints {
    int64_t count;
    opw_int at[OPWRIGHT_AXES];
} opw_ints;

typedef struct opw_doubles {
    int64_t count;
    double at[OPWRIGHT_AXES];
} opw_doubles;

// A number, or one number for each axis of a run.
typedef struct opw_extent {
    bool run;
    int64_t count;
    const opw_int *at;
} opw_extent;

// Lists of names, numbers and inputs, as C has them.
#define OPWRIGHT_ORDER(...) ((const char *const[]){__VA_ARGS__})
#define OPWRIGHT_REAL_OF(value) ((const double[]){value})
#define OPWRIGHT_PART(...) {__VA_ARGS__}
#define OPWRIGHT_PARTS(...) ((const opw_part[]){__VA_ARGS__})
#define OPWRIGHT_NO_LIST() ((opwright_list){NULL, 0})
#define OPWRIGHT_HAS(list) ((list).count > 0 && (list).entries != NULL)
#define OPWRIGHT_EMPTY(list) ((list).count == 0)

#define OPWRIGHT_ONE(value) ((opw_extent){false, 1, (const opw_int[]){value}})
#define OPWRIGHT_RUN(ints) ((opw_extent){true, (ints).count, (ints).at})

// Extents by the name of an axis or a size, in the order in which they were set.
typedef struct opw_axes {
    int64_t count, used;
    struct {
        const char *name;
        bool run;
        int64_t first, count;
    } entries[OPWRIGHT_ENTRIES];
    opw_int pool[OPWRIGHT_POOL];
} opw_axes;

// Positions in an array by the name of an axis. Before `opw_placed` only counts and given positions are known.
typedef struct opw_places {
    int64_t count;
    struct {
        const char *name;
        int64_t count;
        bool located;
        int8_t spots[OPWRIGHT_AXES];
    } entries[OPWRIGHT_PLACED];
} opw_places;

// An input as the rules see it.
typedef struct opw_seen {
    opwright_dtype dtype;
    opw_ints shape;
} opw_seen;

// Real numbers by the name of a size.
typedef struct opw_real_values {
    int64_t count, used;
    struct {
        const char *name;
        int64_t first, count;
    } entries[OPWRIGHT_WORDS];
    double pool[OPWRIGHT_AXES * 2];
} opw_real_values;

typedef struct opw_text {
    size_t length;
    char letters[2048];
} opw_text;

typedef struct opw_spelling {
    const char *word, *means;
} opw_spelling;

// The legal words, and words that are refused with a reason; the last entry of each list has no word.
typedef struct opw_words {
    const opw_spelling *spellings, *refused;
} opw_words;

// An order of axes ends with NULL; the last of a list of orders has no word.
typedef const char *const *opw_order;
typedef struct opw_layout {
    const char *word;
    const char *order[OPWRIGHT_PLACED];
} opw_layout;

// A size that inputs broadcast to is compared with each of them.
typedef struct opw_part {
    const char *name;
    bool given, stretches;
    opw_extent extent;
} opw_part;

typedef struct opw_between {
    const char *name;
    int64_t phase; // that it is private to, -1: none
    int64_t letters;
    opw_int cells[8]; // for each letter that lanes may run along
} opw_between;

typedef struct opw_output {
    const char *name;
    bool absent;
    opw_ints shape;
    opw_places places;
} opw_output;

// A legal call.
typedef struct opw_found {
    int64_t row;
    const char *group_class;
    int64_t words;
    struct {
        const char *name, *word;
    } word[OPWRIGHT_WORDS];
    opw_axes values;
    opw_real_values reals;
    opw_axes letters;
    opw_axes slides; // indices that letters move together: by name the offset, by name and letter the factor, by name and ".end" the extent
    opw_places places[OPWRIGHT_INPUTS]; // of the inputs, in their order
    opw_output outputs[OPWRIGHT_INPUTS];
    int64_t betweens;
    opw_between between[24];
    opw_int terms;
} opw_found;

struct opw_operation;

typedef struct opw_context {
    const struct opw_operation *op;
    const void *call;
    bool refused;
    char rule[OPWRIGHT_RULE], argument[OPWRIGHT_RULE];
    opw_text got, expected, nearest;
    bool given[OPWRIGHT_INPUTS];
    opw_seen inputs[OPWRIGHT_INPUTS];
    const char *dtypes[OPWRIGHT_INPUTS]; // by output, the word of the data type that its tensor has; NULL: none is given
    opw_found found;
} opw_context;

// Text.

void opw_put(opw_text *text, const char *letters);
void opw_put_int(opw_text *text, opw_int value);
void opw_put_real(opw_text *text, double value);
void opw_put_word(opw_text *text, const char *word, int64_t limit);
void opw_put_tuple(opw_text *text, const opw_int *values, int64_t count);
void opw_put_list(opw_text *text, const opw_int *values, int64_t count);
// As opw_put_list, the first of them where there are many.
void opw_put_shown(opw_text *text, const opw_int *values, int64_t count, int64_t of);
const char *opw_nearest_word(const char *given, const opw_spelling *spellings);

// The entries of values, and how values begin.
static inline opw_int opw_at(const opw_ints *values, int64_t at) { return values->at[at]; }
static inline double opw_real_at(const opw_doubles *values, int64_t at) { return values->at[at]; }
static inline int64_t opw_count_ints(const opw_ints *values) { return values->count; }
static inline int64_t opw_count_reals(const opw_doubles *values) { return values->count; }
#define opw_count(values) \
    _Generic(*(values), opw_ints: opw_count_ints, opw_doubles: opw_count_reals)((const void *)(values))
static inline opw_int opw_first(opw_extent extent) { return extent.count > 0 ? extent.at[0] : 1; }
static inline void opw_begin_ints(opw_ints *values) { values->count = 0; }
static inline void opw_begin_doubles(opw_doubles *values) { values->count = 0; }
static inline void opw_begin_axes(opw_axes *axes) { axes->count = axes->used = 0; }
static inline void opw_begin_places(opw_places *places) { places->count = 0; }

// Defaults of lists.
static inline opwright_list opw_list_or(opwright_list list, opwright_list other)
{
    return list.entries == NULL && list.count == 0 ? other : list;
}
static inline opwright_reals opw_reals_or(opwright_reals list, opwright_reals other)
{
    return list.entries == NULL && list.count == 0 ? other : list;
}
// The first refusal wins: true if this is it, and then `got`, `expected` and `nearest` are empty.
bool opw_refuse(opw_context *x, const char *rule, const char *ending, const char *argument);

// Numbers.

enum { OPW_LINE = 64 }; // bytes of a cache line: what different threads write begins on lines of their own

opw_int opw_add(opw_int a, opw_int b);
opw_int opw_sub(opw_int a, opw_int b);
opw_int opw_mul(opw_int a, opw_int b);
opw_int opw_min(opw_int a, opw_int b);
opw_int opw_max(opw_int a, opw_int b);
opw_int opw_lines(opw_int bytes);            // up to whole cache lines
opw_int opw_largest(const opw_ints *values); // 0 of none
opw_int opw_prod(const opw_ints *values);
bool opw_same(opw_extent a, opw_extent b);
opw_int opw_exact(opw_context *x, opw_int a, opw_int b);
opw_int opw_modulo(opw_context *x, opw_int a, opw_int b);
opw_int opw_floor_div(opw_context *x, opw_int a, opw_int b);
opw_int opw_ceil_div(opw_context *x, opw_int a, opw_int b);
opw_int opw_scaled(opw_context *x, opw_int whole, double factor);
opw_ints opw_each(opw_context *x, opw_int apply(opw_context *, opw_int, opw_int),
                            opw_extent a, opw_extent b);
opw_int opw_times(opw_context *x, opw_int a, opw_int b);
opw_int opw_less(opw_context *x, opw_int a, opw_int b);
void opw_int64(opw_context *x, const char *name, opw_extent value);
void opw_bounded(opw_context *x, const char *what, opw_int largest);
opw_ints opw_repeated(opw_int value, opw_int count);
void opw_append(opw_ints *values, opw_int value);
opw_ints opw_ints_of(opw_extent value);

// Attributes.

bool opw_is(const char *word, const char *other);
const char *opw_word(opw_context *x, const char *name, const char *value, const opw_words *words);
opw_int opw_integer(opw_context *x, const char *name, int64_t value, int64_t minimum, int64_t maximum);
opw_ints opw_integers(opw_context *x, const char *name, opwright_list value, opw_int length,
                                int64_t minimum, int64_t maximum, int64_t surplus, int64_t neutral);
double opw_real(opw_context *x, const char *name, double value, int64_t minimum, int64_t maximum);
opw_doubles opw_spatial_reals(opw_context *x, const char *name, opwright_reals value, opw_int length,
                                        int64_t minimum, int64_t maximum, const double *neutral);
void opw_entries(opw_context *x, const char *name, bool given);

void opw_real_entries(opw_context *x, const char *name, bool given);
void opw_per_ints(opw_context *x, const char *name, opwright_list entries, opw_int extent);
void opw_per_reals(opw_context *x, const char *name, opwright_reals entries, opw_int extent);
// A list of extents of blocks: `extent` on one axis of a tensor, 1 on all others.
void opw_blocks(opw_context *x, const char *name, opwright_list value, const char *tensor, const opw_places *places,
                const char *axis, opw_int extent);
const char *opw_dtype_word(opw_context *x, const char *name, const char *value, const opw_words *words,
                                const char *fallback, const char *output);
const char *opw_dtype_of(const opw_seen *tensor);

// Tensors.

const opw_seen *opw_input(const opw_context *x, int64_t number);
// `output` has the data type selected by the word of an attribute; NULL: none.
int64_t opw_dtype_row(opw_context *x, const char *output, const char *attribute, const char *dtype);
opw_int opw_spatial_rank(opw_context *x, const char *name, const opw_seen *tensor,
                                   opw_int fixed, int64_t minimum, int64_t maximum);
void opw_axes_count(opw_context *x, const char *name, const opw_seen *tensor, opw_int count);
const char *opw_stated_shape(opw_context *x, const char *output, opw_int length, const char *tensor_name,
                                  const opwright_tensor *tensor, const char *list_name, opwright_list list,
                                  opw_ints *shape);
void opw_several(opw_context *x, const char *name, opwright_tensors parts);
void opw_concatenate(opw_context *x, const char *name, opwright_tensors parts, opw_seen *whole,
                       int64_t spot);
void opw_presence(opw_context *x, const char *name, const opw_seen *value, bool wanted, const char *say,
                       bool optional);

// Axes.

void opw_set(opw_axes *axes, const char *name, opw_extent extent);
opw_extent opw_axis(const opw_axes *axes, const char *name);
bool opw_has_axis(const opw_axes *axes, const char *name);
opw_order opw_ordering(const opw_layout *layouts, const char *word);
bool opw_has(opw_order order, const char *axis);
void opw_split(opw_context *x, opw_axes *axes, const opw_ints *shape, opw_order order,
                    const char *spatial, opw_int rank);
void opw_cut(opw_context *x, opw_axes *axes, const opw_ints *shape, const opw_places *places,
                  opw_order vectors);
void opw_place(opw_context *x, opw_places *places, const char *axis, opw_int count);
void opw_say_place(opw_context *x, opw_places *places, const char *axis, const opw_ints *spots);
void opw_placed(opw_context *x, opw_places *places, opw_order order);
int64_t opw_spot(const opw_places *places, const char *axis);
opw_ints opw_join(opw_context *x, const opw_places *places, const opw_axes *extents);
opw_ints opw_join_order(opw_context *x, opw_order order, const opw_axes *extents);
opw_int opw_position(opw_context *x, const char *name, opw_int value, const char *tensor,
                               opw_int axes, bool end);
opw_ints opw_positions(opw_context *x, const char *name, opwright_list value, const char *tensor,
                                 opw_int axes);
opw_int opw_before(opw_context *x, const char *name, opw_int place, opw_int fixed);
void opw_distinct_axes(opw_context *x, const char *name, opw_ints places, const char *other, opw_ints others);
void opw_agrees(opw_context *x, const char *name, opw_int place, opw_int expected);
opw_int opw_rest(opw_context *x, const char *name, const opw_seen *tensor, opw_int fixed);
opw_int opw_present(const opw_seen *tensor, opw_int fixed);
void opw_ordered(opw_context *x, const char *name, opwright_list value, const char *tensor,
                      opw_places *places);
void opw_fits(opw_context *x, const char *name, const opw_ints *shape, const opw_axes *found,
                   const opw_axes *known);
opw_ints opw_broadcast_extent(opw_context *x, const char *symbol, const opw_part *parts, int64_t count);
opw_ints opw_stated(opw_context *x, const char *name, opwright_list value, const opw_ints *whole,
                              bool keeps);
opw_ints opw_stretched(opw_extent whole, const opw_part *parts, int64_t count);
opw_ints opw_parts(opw_extent whole, const opw_ints *marks, int64_t number);
// The part `number` of an axis, which has the name `part` in `to`.
void opw_put_part(opw_context *x, opw_places *to, const opw_places *from, const char *axis,
                       const opw_ints *marks, int64_t number, const char *part);
void opw_put_axis(opw_context *x, opw_places *to, const opw_places *from, const char *axis);

// Which arrangement a tensor has: begun, then for each arrangement its extents, then chosen.
typedef struct opw_choice {
    const opw_axes *axes;
    opw_order order;
    int64_t count, chosen;
    bool fits, whole;       // of the current arrangement: whether its extents agree so far, whether all are numbers
    bool nearest;
    opw_axes extents;  // expected by the current arrangement
    const char *unknown[OPWRIGHT_PLACED], *unknown_axis[OPWRIGHT_PLACED];
    int64_t unknowns;
    opw_text expected;
    opw_ints near;
} opw_choice;

void opw_choose(opw_choice *choice, opw_order order, const opw_axes *axes);
void opw_known(opw_context *x, opw_choice *choice, const char *axis, opw_extent extent);
void opw_unknown(opw_choice *choice, const char *axis, const char *written);
void opw_arrangement(opw_context *x, opw_choice *choice, const char *name);
int64_t opw_chosen(opw_context *x, opw_choice *choice, const char *name, const char *argument);

// Sizes.

void opw_at_least(opw_context *x, const char *rule, const char *argument, const char *role,
                    opw_extent value, int64_t minimum);
// The refusal of a call that breaks a constraint, followed by the values that do so and the nearest ones.
bool opw_broken(opw_context *x, const char *rule, const char *argument, const char *say);
void opw_such(opw_context *x, const char *name, opw_extent value);
void opw_such_truth(opw_context *x, const char *name, bool value);
void opw_such_word(opw_context *x, const char *name, const char *word);
void opw_such_real(opw_context *x, const char *name, double value);
void opw_such_reals(opw_context *x, const char *name, const opw_doubles *values);
void opw_nearest(opw_context *x, opw_extent value);
void opw_divisor(opw_context *x, opw_extent value, const char *say);
void opw_not_negative(opw_context *x, opw_extent value, const char *say);
void opw_counted(opw_context *x, opw_int value, int64_t row);
void opw_output_bytes(opw_context *x, const opw_ints *shape, int64_t row, const char *name);

// Results.

void opw_found_row(opw_context *x, int64_t row);
void opw_found_class(opw_context *x, const char *word);
void opw_found_terms(opw_context *x, opw_int terms);
void opw_found_word(opw_context *x, const char *name, const char *word);
void opw_found_value(opw_context *x, const char *name, opw_extent value);
void opw_found_real(opw_context *x, const char *name, double value);
void opw_found_reals(opw_context *x, const char *name, const opw_doubles *values);
void opw_found_letter(opw_context *x, const char *letter, opw_extent extent);
void opw_found_slide(opw_context *x, const char *name, opw_extent value);
void opw_found_places(opw_context *x, int64_t number, const opw_places *places);
void opw_found_output(opw_context *x, int64_t number, const opw_ints *shape,
                           const opw_places *places);
void opw_found_absent(opw_context *x, int64_t number, bool absent);
void opw_found_between(opw_context *x, const char *name, int64_t phase);
void opw_found_cells(opw_context *x, opw_int cells);

#endif
