// One program that uses two exported libraries, in C and in C++.

#include <acme_operations.h>
#include <opwright_operations.h>

#include <stdio.h>

int main(void)
{
    float numbers[4] = {-1, 2, -3, 4}, first[4], second[4];
    const int64_t shape[1] = {4};
    opwright_tensor src = {numbers, OPWRIGHT_F32, 1, shape, NULL};
    opwright_tensor one = {first, OPWRIGHT_F32, 1, shape, NULL};
    opwright_tensor two = {second, OPWRIGHT_F32, 1, shape, NULL};
    opwright_error error;
    opwright_relu_call relu = OPWRIGHT_RELU_DEFAULTS;
    acme_relu_call acme = ACME_RELU_DEFAULTS;

    relu.src = &src;
    relu.dst = &one;
    acme.src = &src;
    acme.dst = &two;
    if (opwright_relu(&relu, NULL, &error) != OPWRIGHT_OK || acme_relu(&acme, NULL, &error) != OPWRIGHT_OK) {
        printf("%s\n", error.message);
        return 1;
    }
    printf("%g %g %g %g\n", (double)first[0], (double)first[1], (double)second[2], (double)second[3]);
    acme.src = NULL;
    if (acme_relu(&acme, NULL, &error) == OPWRIGHT_REFUSED) {
        printf("%s\n", error.rule);
    }
    return 0;
}
