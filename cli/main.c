#include "kernels/status.h"

#include <stdio.h>

int main(void) {
    (void)puts("stepgauge");
    return 0;
}
