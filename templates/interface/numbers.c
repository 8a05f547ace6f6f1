// Integers, and numeric and word attributes of a call: the rules of _rules.py and _numbers.py.

#include "operation.h"

#include <math.h>
#include <string.h>

#define INT128_LIMIT ((opw_int)(((unsigned __int128)-1) >> 1))
static const opw_int INDEX_LIMIT = (opw_int)1 << 62;

// A bound that no index of the spec reaches; larger values only compare as larger.
static opw_int saturated(bool negative) { return negative ? -INT128_LIMIT : INT128_LIMIT; }

opw_int opw_add(opw_int a, opw_int b)
{
    opw_int result;
    return __builtin_add_overflow(a, b, &result) ? saturated(a < 0) : result;
}

opw_int opw_lines(opw_int bytes) { return opw_mul(opw_add(bytes, OPW_LINE - 1) / OPW_LINE, OPW_LINE); }

opw_int opw_sub(opw_int a, opw_int b)
{
    opw_int result;
    return __builtin_sub_overflow(a, b, &result) ? saturated(a < 0) : result;
}

opw_int opw_mul(opw_int a, opw_int b)
{
    opw_int result;
    return __builtin_mul_overflow(a, b, &result) ? saturated((a < 0) != (b < 0)) : result;
}

opw_int opw_min(opw_int a, opw_int b) { return a < b ? a : b; }
opw_int opw_max(opw_int a, opw_int b) { return a > b ? a : b; }

opw_int opw_largest(const opw_ints *values)
{
    opw_int largest = values->count > 0 ? values->at[0] : 0;
    for (int64_t at = 1; at < values->count; ++at) {
        largest = opw_max(largest, values->at[at]);
    }
    return largest;
}

opw_int opw_prod(const opw_ints *values)
{
    opw_int result = 1;
    for (int64_t at = 0; at < values->count; ++at) {
        if (values->at[at] == 0) {
            return 0;
        }
        result = opw_mul(result, values->at[at]);
    }
    return result;
}

bool opw_same(opw_extent a, opw_extent b)
{
    bool same = a.run == b.run && a.count == b.count;
    for (int64_t at = 0; same && at < a.count; ++at) {
        same = a.at[at] == b.at[at];
    }
    return same;
}

static void inexact(opw_context *x, opw_int a, const char *sign, opw_int b, const char *expected)
{
    if (opw_refuse(x, "inexact-division", "", "shape")) {
        opw_put_int(&x->got, a);
        opw_put(&x->got, sign);
        opw_put_int(&x->got, b);
        opw_put(&x->expected, expected);
    }
}

static opw_int floored(opw_int a, opw_int b)
{
    const opw_int quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

opw_int opw_exact(opw_context *x, opw_int a, opw_int b)
{
    if (b == 0 || a % b != 0) {
        inexact(x, a, " / ", b, "a quotient without remainder");
        return 0;
    }
    return a / b;
}

static bool divides(opw_context *x, opw_int a, opw_int b)
{
    if (b == 0) {
        inexact(x, a, " / ", 0, "a divisor other than 0");
    }
    return b != 0;
}

opw_int opw_modulo(opw_context *x, opw_int a, opw_int b)
{
    if (!divides(x, a, b)) {
        return 0;
    }
    const opw_int size = b < 0 ? -b : b;
    return a - floored(a, size) * size;
}

opw_int opw_floor_div(opw_context *x, opw_int a, opw_int b)
{
    return divides(x, a, b) ? floored(a, b) : 0;
}

opw_int opw_ceil_div(opw_context *x, opw_int a, opw_int b)
{
    return divides(x, a, b) ? -floored(-a, b) : 0;
}

opw_int opw_scaled(opw_context *x, opw_int whole, double factor)
{
    const float product = (float)whole * (float)factor;
    if (!isfinite(product)) {
        if (opw_refuse(x, "inexact-division", "", "shape")) {
            opw_put_int(&x->got, whole);
            opw_put(&x->got, " * ");
            opw_put_real(&x->got, factor);
            opw_put(&x->expected, "a finite number of f32");
        }
        return 0;
    }
    const double down = floor((double)product);
    return fabs(down) < 1e38 ? (opw_int)down : saturated(down < 0);
}

opw_int opw_times(opw_context *x, opw_int a, opw_int b)
{
    (void)x;
    return opw_mul(a, b);
}

opw_int opw_less(opw_context *x, opw_int a, opw_int b)
{
    (void)x;
    return opw_sub(a, b);
}

opw_ints opw_each(opw_context *x, opw_int apply(opw_context *, opw_int, opw_int),
                            opw_extent a, opw_extent b)
{
    opw_ints result;
    result.count = a.count;
    for (int64_t at = 0; at < a.count; ++at) {
        result.at[at] = apply(x, a.at[at], b.at[b.run ? at : 0]);
    }
    return result;
}

void opw_int64(opw_context *x, const char *name, opw_extent value)
{
    for (int64_t at = 0; at < value.count; ++at) {
        if ((value.at[at] < INT64_MIN || value.at[at] > INT64_MAX) && opw_refuse(x, "overflow", "", name)) {
            opw_put_int(&x->got, value.at[at]);
            opw_put(&x->expected, "a value that fits into int64");
        }
    }
}

void opw_bounded(opw_context *x, const char *what, opw_int largest)
{
    if (largest > INDEX_LIMIT && opw_refuse(x, "index-overflow", "", what)) {
        opw_put(&x->got, "up to ");
        opw_put_int(&x->got, largest);
        opw_put(&x->expected, "index sums of at most 2**62");
    }
}

void opw_append(opw_ints *values, opw_int value)
{
    if (values->count < OPWRIGHT_AXES) {
        values->at[values->count++] = value;
    }
}

opw_ints opw_repeated(opw_int value, opw_int count)
{
    opw_ints values;
    values.count = 0;
    for (int64_t at = 0; at < count; ++at) {
        opw_append(&values, value);
    }
    return values;
}

opw_ints opw_ints_of(opw_extent value)
{
    opw_ints result;
    result.count = value.count;
    memcpy(result.at, value.at, (size_t)value.count * sizeof *value.at);
    return result;
}

bool opw_is(const char *word, const char *other)
{
    return word != NULL && other != NULL && strcmp(word, other) == 0;
}

static const char *meaning(const opw_spelling *spellings, const char *word)
{
    for (; spellings->word != NULL; ++spellings) {
        if (strcmp(spellings->word, word) == 0) {
            return spellings->means;
        }
    }
    return NULL;
}

const char *opw_word(opw_context *x, const char *name, const char *value, const opw_words *words)
{
    if (value == NULL) {
        if (opw_refuse(x, name, "-kind", name)) {
            opw_put(&x->got, "None");
            opw_put(&x->expected, "text");
        }
        return words->spellings->means;
    }
    const char *const found = meaning(words->spellings, value);
    if (found != NULL) {
        return found;
    }
    if (opw_refuse(x, name, "-value", name)) {
        const char *const reason = meaning(words->refused, value);
        opw_put_word(&x->got, value, 80);
        opw_put(&x->expected, "one of ");
        for (const opw_spelling *one = words->spellings; one->word != NULL; ++one) {
            opw_put(&x->expected, one == words->spellings ? "" : ", ");
            opw_put_word(&x->expected, one->word, INT64_MAX);
        }
        if (reason != NULL) {
            opw_put(&x->expected, ": ");
            opw_put(&x->expected, reason);
        } else {
            const char *const near = opw_nearest_word(value, words->spellings);
            if (near != NULL) {
                opw_put_word(&x->nearest, near, INT64_MAX);
            }
        }
    }
    return words->spellings->means;
}

static void put_limits(opw_text *text, const char *head, int64_t minimum, int64_t maximum)
{
    const bool low = minimum != OPWRIGHT_NONE, high = maximum != OPWRIGHT_NONE;
    opw_put(text, head);
    opw_put(text, low && high ? "within " : low ? ">= " : "<= ");
    opw_put_int(text, low ? minimum : maximum);
    if (low && high) {
        opw_put(text, " to ");
        opw_put_int(text, maximum);
    }
}

static opw_int clipped(opw_int value, int64_t minimum, int64_t maximum)
{
    const opw_int low = minimum == OPWRIGHT_NONE ? value : opw_max(value, minimum);
    return maximum == OPWRIGHT_NONE ? low : opw_min(low, maximum);
}

opw_int opw_integer(opw_context *x, const char *name, int64_t value, int64_t minimum, int64_t maximum)
{
    const opw_int nearest = clipped(value, minimum, maximum);
    if (nearest != value && opw_refuse(x, name, "-range", name)) {
        opw_put_int(&x->got, value);
        put_limits(&x->expected, "an integer ", minimum, maximum);
        opw_put_int(&x->nearest, nearest);
    }
    return nearest;
}

static void require_entries(opw_context *x, const char *name, bool given, const char *wanted)
{
    if (!given && opw_refuse(x, name, "-kind", name)) {
        opw_put(&x->got, "None");
        opw_put(&x->expected, wanted);
    }
}

// A list with invalid entries counts as not given.
void opw_entries(opw_context *x, const char *name, bool given)
{
    require_entries(x, name, given, "a list of integers");
}

void opw_real_entries(opw_context *x, const char *name, bool given)
{
    require_entries(x, name, given, "a list of numbers");
}

static bool readable(opwright_list value) { return value.count >= 0 && (value.entries != NULL || value.count == 0); }

static void put_count(opw_context *x, const opw_int *first, int64_t shown, int64_t count)
{
    opw_put_shown(&x->got, first, shown, count);
    opw_put(&x->got, " (");
    opw_put_int(&x->got, count);
    opw_put(&x->got, " entries)");
}

static opw_ints first_of(opwright_list value)
{
    opw_ints result;
    result.count = value.count < OPWRIGHT_AXES ? value.count : OPWRIGHT_AXES;
    for (int64_t at = 0; at < result.count; ++at) {
        result.at[at] = value.entries[at];
    }
    return result;
}

opw_ints opw_integers(opw_context *x, const char *name, opwright_list value, opw_int length,
                                int64_t minimum, int64_t maximum, int64_t surplus, int64_t neutral)
{
    opw_ints result;
    result.count = 0;
    if (x->refused) {
        return result;
    }
    if (value.entries == NULL && value.count == 0 && neutral != OPWRIGHT_NONE) {
        for (int64_t at = 0; at < length; ++at) {
            opw_append(&result, neutral);
        }
        return result;
    }
    opw_entries(x, name, readable(value) && value.entries != NULL);
    if (x->refused) {
        return result;
    }
    result = first_of(value);
    if (value.count != length) {
        bool cut = surplus != OPWRIGHT_NONE && value.count >= length;
        for (int64_t at = (int64_t)length; cut && at < value.count; ++at) {
            cut = value.entries[at] == surplus;
        }
        if (!cut && opw_refuse(x, name, "-length", name)) {
            put_count(x, result.at, result.count, value.count);
            opw_put_int(&x->expected, length);
            opw_put(&x->expected, " entries, one per spatial axis");
            if (surplus != OPWRIGHT_NONE) {
                opw_put(&x->expected, ", or more when the rest is ");
                opw_put_int(&x->expected, surplus);
            }
        }
        result.count = cut ? (int64_t)length : 0;
    }
    opw_ints nearest;
    nearest.count = result.count;
    bool within = true;
    for (int64_t at = 0; at < result.count; ++at) {
        nearest.at[at] = clipped(result.at[at], minimum, maximum);
        within = within && nearest.at[at] == result.at[at];
    }
    if (!within && opw_refuse(x, name, "-range", name)) {
        opw_put_shown(&x->got, result.at, result.count, result.count);
        put_limits(&x->expected, "every entry ", minimum, maximum);
        opw_put_shown(&x->nearest, nearest.at, nearest.count, nearest.count);
    }
    return result;
}

double opw_real(opw_context *x, const char *name, double value, int64_t minimum, int64_t maximum)
{
    const double number = (double)(float)value;
    const bool low = minimum != OPWRIGHT_NONE && number < (double)minimum;
    const bool high = maximum != OPWRIGHT_NONE && number > (double)maximum;
    if ((low || high) && opw_refuse(x, name, "-range", name)) {
        opw_put_real(&x->got, number);
        put_limits(&x->expected, "a number ", minimum, maximum);
        opw_put_int(&x->nearest, low ? minimum : maximum);
    }
    return number;
}

opw_doubles opw_spatial_reals(opw_context *x, const char *name, opwright_reals value, opw_int length,
                                        int64_t minimum, int64_t maximum, const double *neutral)
{
    opw_doubles result;
    result.count = 0;
    if (x->refused) {
        return result;
    }
    const bool missing = value.entries == NULL;
    if ((missing && neutral == NULL) || value.count < 0 || (missing && value.count > 0)) {
        if (opw_refuse(x, name, "-kind", name)) {
            opw_put(&x->got, "None");
            opw_put(&x->expected, "a list of numbers");
        }
    } else if (!missing && value.count != length) {
        if (opw_refuse(x, name, "-length", name)) {
            opw_put_int(&x->got, value.count);
            opw_put(&x->got, " entries");
            opw_put_int(&x->expected, length);
            opw_put(&x->expected, " entries, one per spatial axis");
        }
    } else {
        result.count = (int64_t)length;
        for (int64_t at = 0; at < length; ++at) {
            result.at[at] = missing ? *neutral : opw_real(x, name, value.entries[at], minimum, maximum);
        }
    }
    return result;
}

static bool refused_length(opw_context *x, const char *name, int64_t count, opw_int extent)
{
    if (x->refused || count == 1 || count == extent || !opw_refuse(x, name, "-length", name)) {
        return false;
    }
    opw_put(&x->expected, "1 entry");
    if (extent != 1) {
        opw_put(&x->expected, ", or ");
        opw_put_int(&x->expected, extent);
    }
    return true;
}

static void put_entry_count(opw_context *x, int64_t count)
{
    opw_put(&x->got, "] (");
    opw_put_int(&x->got, count);
    opw_put(&x->got, " entries)");
}

enum { PER_SHOWN = 8 };

void opw_per_ints(opw_context *x, const char *name, opwright_list entries, opw_int extent)
{
    if (refused_length(x, name, entries.count, extent)) {
        opw_put(&x->got, "[");
        for (int64_t at = 0; at < entries.count && at < PER_SHOWN; ++at) {
            opw_put(&x->got, at > 0 ? ", " : "");
            opw_put_int(&x->got, entries.entries[at]);
        }
        put_entry_count(x, entries.count);
    }
}

void opw_per_reals(opw_context *x, const char *name, opwright_reals entries, opw_int extent)
{
    if (refused_length(x, name, entries.count, extent)) {
        opw_put(&x->got, "[");
        for (int64_t at = 0; at < entries.count && at < PER_SHOWN; ++at) {
            opw_put(&x->got, at > 0 ? ", " : "");
            opw_put_real(&x->got, (double)(float)entries.entries[at]);
        }
        put_entry_count(x, entries.count);
    }
}

void opw_at_least(opw_context *x, const char *rule, const char *argument, const char *role,
                    opw_extent value, int64_t minimum)
{
    bool enough = true;
    for (int64_t at = 0; at < value.count; ++at) {
        enough = enough && value.at[at] >= minimum;
    }
    if (!enough && opw_refuse(x, rule, "", argument)) {
        opw_put(&x->got, "one that makes ");
        opw_put(&x->got, role);
        opw_put(&x->got, " ");
        if (value.run) {
            opw_put_list(&x->got, value.at, value.count);
        } else {
            opw_put_int(&x->got, value.at[0]);
        }
        opw_put(&x->expected, "every extent of ");
        opw_put(&x->expected, role);
        opw_put(&x->expected, " >= ");
        opw_put_int(&x->expected, minimum);
    }
}

bool opw_broken(opw_context *x, const char *rule, const char *argument, const char *say)
{
    if (!opw_refuse(x, rule, "", argument)) {
        return false;
    }
    opw_put(&x->got, "such that ");
    opw_put(&x->expected, say);
    return true;
}

static void such(opw_context *x, const char *name)
{
    opw_put(&x->got, x->got.letters[x->got.length - 1] == ' ' ? "" : ", ");
    opw_put(&x->got, name);
    opw_put(&x->got, " = ");
}

void opw_such(opw_context *x, const char *name, opw_extent value)
{
    such(x, name);
    if (value.run) {
        opw_put_list(&x->got, value.at, value.count);
    } else {
        opw_put_int(&x->got, value.at[0]);
    }
}

void opw_such_truth(opw_context *x, const char *name, bool value)
{
    such(x, name);
    opw_put(&x->got, value ? "True" : "False");
}

void opw_such_word(opw_context *x, const char *name, const char *word)
{
    such(x, name);
    opw_put(&x->got, word);
}

void opw_such_real(opw_context *x, const char *name, double value)
{
    such(x, name);
    opw_put_real(&x->got, value);
}

void opw_such_reals(opw_context *x, const char *name, const opw_doubles *values)
{
    such(x, name);
    opw_put(&x->got, "[");
    for (int64_t at = 0; at < values->count; ++at) {
        opw_put(&x->got, at > 0 ? ", " : "");
        opw_put_real(&x->got, values->at[at]);
    }
    opw_put(&x->got, "]");
}

void opw_nearest(opw_context *x, opw_extent value)
{
    if (value.run) {
        opw_put_shown(&x->nearest, value.at, value.count, value.count);
    } else {
        opw_put_int(&x->nearest, value.at[0]);
    }
}
