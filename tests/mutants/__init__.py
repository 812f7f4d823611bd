"""Mutation testing: break the source in one place, and see whether the unit tests of its room notice.

`make proof ARGS="--only mutants"`, or `python -m mutants ROOM ... --sample 200 --seed N` with the folder `tests` on the path. The known tools
do not fit: mutmut forks a process that has already imported everything (here: loops and threads), cosmic-ray edits the
working tree, mutatest is no longer kept; none draws a seeded sample per room.

A mutant that no test can or should notice is listed in equivalent/<room>.toml:

    [[mutant]]
    module = "wire/frame.py"
    function = "FrameDecoder.feed"
    before = "the line as the command prints it behind -"
    after = "the line as it prints it behind +"
    reason = "why nothing changes, or why a test of it would prove nothing"
"""
