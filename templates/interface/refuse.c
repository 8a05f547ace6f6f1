// The first broken rule of a call, and the message that says it.

#include "operation.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_LETTERS = 500, // of one piece of a message
};

bool opw_refuse(opw_context *x, const char *rule, const char *ending, const char *argument)
{
    if (x->refused) {
        return false;
    }
    x->refused = true;
    snprintf(x->rule, sizeof x->rule, "%s%s", rule, ending);
    snprintf(x->argument, sizeof x->argument, "%s", argument);
    x->got.length = x->expected.length = x->nearest.length = 0;
    x->got.letters[0] = x->expected.letters[0] = x->nearest.letters[0] = 0;
    return true;
}

static const char *place_of(const opw_context *x)
{
    const opw_pair *place = x->op->rules;
    if (strcmp(x->rule, "overflow") == 0) {
        for (const opw_pair *value = x->op->values; value->name != NULL; ++value) {
            if (strcmp(value->name, x->argument) == 0) {
                return value->value;
            }
        }
    }
    const size_t head = strcspn(x->rule, "-");
    for (const opw_pair *section = opw_sections; section->name != NULL; ++section) {
        if (strlen(section->name) == head && memcmp(section->name, x->rule, head) == 0) {
            return section->value;
        }
    }
    while (place->name != NULL && strcmp(place->name, x->rule) != 0) {
        ++place;
    }
    return place->name != NULL ? place->value : opw_sections[0].value;
}

static void shorten(opw_text *text, size_t limit)
{
    if (text->length > limit) {
        memcpy(text->letters + limit - 3, "...", 4);
        text->length = limit;
    }
}

// Appends characters that fit.
static char *add(char *at, const char *end, const char *letters)
{
    while (*letters != 0 && at + 1 < end) {
        *at++ = *letters++;
    }
    *at = 0;
    return at;
}

int opw_report(opw_context *x, opwright_error *error)
{
    if (!x->refused) {
        return OPWRIGHT_OK;
    }
    if (error != NULL) {
        shorten(&x->got, MAX_LETTERS);
        shorten(&x->expected, 4 * MAX_LETTERS);
        const char *const nearest[] = {" (nearest valid: ", x->nearest.letters, ")"};
        const char *const parts[] = {x->op->name, ": rule ", x->rule, ": argument '", x->argument, "' is ",
                                     x->got.letters, ", expected ", x->expected.letters};
        char *at = error->message, *const end = error->message + sizeof error->message;
        memcpy(error->rule, x->rule, sizeof error->rule);
        memcpy(error->argument, x->argument, sizeof error->argument);
        for (size_t n = 0; n < sizeof parts / sizeof *parts; ++n) {
            at = add(at, end, parts[n]);
        }
        for (size_t n = 0; n < 3 && x->nearest.length > 0; ++n) {
            at = add(at, end, nearest[n]);
        }
        add(add(at, end, "; see "), end, place_of(x));
    }
    return OPWRIGHT_REFUSED;
}
