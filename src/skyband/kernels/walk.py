"""Where a walk over events, due windows and views has come to: places in the `at` of the kernels."""

EVENT, DUE, OPENED, CLOSED, PICKED = 0, 1, 2, 3, 4
WALK = 5
STEP = 0
