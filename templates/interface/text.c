// Values as text in refusals, as in the package's _words.py.

#include "operation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 12 }; // entries of a list

void opw_put(opw_text *text, const char *letters)
{
    const size_t room = sizeof text->letters - 1 - text->length, length = strlen(letters);
    const size_t taken = length < room ? length : room;
    memcpy(text->letters + text->length, letters, taken);
    text->length += taken;
    text->letters[text->length] = 0;
}

void opw_put_int(opw_text *text, opw_int value)
{
    char digits[48];
    size_t at = sizeof digits - 1;
    const bool negative = value < 0;
    digits[at] = 0;
    do {
        const int digit = (int)(value % 10);
        digits[--at] = (char)('0' + (negative ? -digit : digit));
        value /= 10;
    } while (value != 0);
    if (negative) {
        digits[--at] = '-';
    }
    opw_put(text, digits + at);
}

// As in Python: the fewest digits that identify the number.
void opw_put_real(opw_text *text, double value)
{
    if (isnan(value) || isinf(value)) {
        opw_put(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char plain[64], digits[32];
    int precision = 0;
    do {
        snprintf(plain, sizeof plain, "%.*e", precision, value);
    } while (strtod(plain, NULL) != value && ++precision < 17);
    size_t count = 0;
    const char *at = plain;
    if (*at == '-') {
        opw_put(text, "-");
        ++at;
    }
    for (; *at != 'e'; ++at) {
        if (*at >= '0' && *at <= '9') {
            digits[count++] = *at;
        }
    }
    digits[count] = 0;
    const int exponent = atoi(at + 1);
    char made[64] = "";
    if (exponent < -4 || exponent >= 16) {
        const char *const sign = exponent < 0 ? "-" : "+";
        snprintf(made, sizeof made, "%c%s%se%s%02d", digits[0], count > 1 ? "." : "", digits + 1, sign, abs(exponent));
    } else if (exponent < 0) {
        snprintf(made, sizeof made, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else if ((size_t)exponent + 1 >= count) {
        const int zeros = exponent + 1 - (int)count;
        snprintf(made, sizeof made, "%s%.*s.0", digits, zeros, "0000000000000000");
    } else {
        snprintf(made, sizeof made, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
    opw_put(text, made);
}

// A word in quotes, cut to `limit` characters.
void opw_put_word(opw_text *text, const char *word, int64_t limit)
{
    const char *const quote = strchr(word, '\'') != NULL && strchr(word, '"') == NULL ? "\"" : "'";
    opw_put(text, quote);
    for (int64_t letters = 0; *word != 0; ++word) {
        const unsigned char letter = (unsigned char)*word;
        if ((letter & 0xC0) != 0x80 && ++letters > limit) {
            break;
        }
        char made[8] = {*word, 0};
        if (letter == '\n' || letter == '\t' || letter == '\r') {
            snprintf(made, sizeof made, "\\%c", letter == '\n' ? 'n' : letter == '\t' ? 't' : 'r');
        } else if (letter < 32 || letter == 127) {
            snprintf(made, sizeof made, "\\x%02x", letter);
        } else if (letter == '\\' || letter == (unsigned char)quote[0]) {
            snprintf(made, sizeof made, "\\%c", letter);
        }
        opw_put(text, made);
    }
    opw_put(text, quote);
}

static void put_entries(opw_text *text, const opw_int *values, int64_t count)
{
    for (int64_t at = 0; at < count; ++at) {
        opw_put(text, at > 0 ? ", " : "");
        opw_put_int(text, values[at]);
    }
}

void opw_put_tuple(opw_text *text, const opw_int *values, int64_t count)
{
    opw_put(text, "(");
    put_entries(text, values, count);
    opw_put(text, count == 1 ? ",)" : ")");
}

void opw_put_list(opw_text *text, const opw_int *values, int64_t count)
{
    opw_put(text, "[");
    put_entries(text, values, count);
    opw_put(text, "]");
}

void opw_put_shown(opw_text *text, const opw_int *values, int64_t count, int64_t of)
{
    const int64_t shown = count < SHOWN ? count : SHOWN;
    opw_put(text, "[");
    put_entries(text, values, shown);
    opw_put(text, of > shown ? ", ...]" : "]");
}

// The number of matching characters of two words, block by block, the longest block first.
static int64_t common(const char *a, int64_t a_length, const char *b, int64_t b_length)
{
    int64_t best = 0, best_a = 0, best_b = 0;
    for (int64_t i = 0; i < a_length; ++i) {
        for (int64_t j = 0; j < b_length; ++j) {
            int64_t run = 0;
            while (i + run < a_length && j + run < b_length && a[i + run] == b[j + run]) {
                ++run;
            }
            if (run > best) {
                best = run, best_a = i, best_b = j;
            }
        }
    }
    if (best == 0) {
        return 0;
    }
    return best + common(a, best_a, b, best_b) +
           common(a + best_a + best, a_length - best_a - best, b + best_b + best, b_length - best_b - best);
}

// The meaning of the most similar spelling, if half of the characters match; else NULL.
const char *opw_nearest_word(const char *given, const opw_spelling *spellings)
{
    enum { MOST = 80 };
    char small[MOST + 1];
    int64_t length = 0;
    for (; given[length] != 0 && length < MOST; ++length) {
        const char letter = given[length];
        small[length] = (char)(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
    }
    const opw_spelling *best = NULL;
    double limit = 0.5;
    for (; spellings->word != NULL; ++spellings) {
        const int64_t own = (int64_t)strlen(spellings->word);
        const double whole = (double)(own + length);
        const double ratio = whole == 0 ? 1 : 2.0 * (double)common(spellings->word, own, small, length) / whole;
        if (ratio > limit || (ratio == limit && (best == NULL || strcmp(spellings->word, best->word) > 0))) {
            limit = ratio;
            best = spellings;
        }
    }
    return best == NULL ? NULL : best->means;
}
