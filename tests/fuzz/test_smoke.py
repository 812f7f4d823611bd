"""Some thousand injured inputs per decoder. The long one is the row `hostile/injured-inputs` of `make proof`."""

import os
from random import Random

from cases import each_case
from fuzz.mutation import mutate
from fuzz.targets import TARGETS

COUNT = 3_000
SEED = int(os.environ.get("ORBITMQ_SEED", "20261121"))


@each_case(*TARGETS)
def test_good_input_passes(name):
    for seed in TARGETS[name].seeds:
        TARGETS[name].decode(seed)


@each_case(*TARGETS)
def test_injured_input_gives_a_value_or_an_error_of_ours(name):
    target, random = TARGETS[name], Random(f"{SEED}-{name}")
    for number in range(COUNT):
        data = mutate(random.choice(target.seeds), target.seeds, random)
        try:
            target.decode(data)
        except Exception as error:
            error.add_note(f"ORBITMQ_SEED={SEED}, input {number}: {data!r}")
            raise
