"""Loops in C for what plain torch does slowly on a CPU. Each stands beside its plain form, which gives the same result
where there is no compiler, no AVX2, or ``VARIORUM_KERNELS=off``."""
