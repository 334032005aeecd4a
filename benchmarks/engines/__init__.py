"""How each engine is asked for the same job: one file per engine, each with a function per kind of job.

Such a function makes everything ready and returns the job as a function without arguments, which gives its answer.
It runs in a process of its own (:mod:`benchmarks.harness.worker`); what it is given is plain data, as JSON has it.
"""
