"""Words of a script: model, elements, options."""

import math

import pytest

from md_gie.calculators.lammps_bridge.settings import Settings, make_settings, parse_settings
from md_gie.engine.guards import Limits
from md_gie.errors import ConfigError


def test_words_of_a_hook():
    settings = parse_settings(["water-s", "O", "H", "dtype=float64", "skin=1", "halo=wide"])
    assert settings == Settings("water-s", ("O", "H"), dtype="float64", skin=1.0, halo="wide")


def test_elements_from_python_as_text_or_sequence():
    assert make_settings("m", "O H") == make_settings("m", ["O", "H"])
    assert make_settings("m", "O", skin=0.25).skin == 0.25


def test_limits_of_the_guards():
    words = ["max_temperature_K=inf", "max_temperature_jump_K=7", "max_energy_jump_eV=0.5"]
    assert parse_settings(["m", "O", *words]).limits == Limits(math.inf, 7.0, 0.5)
    assert parse_settings(["m", "O"]).limits == Limits()


def test_isotopes_are_their_element_and_null_is_none():
    assert Settings("m", ("O", "D", "T", "NULL", "H")).numbers() == [8, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the hook names no model"),
        (["m", "O", "sking=1"], "there is no option 'sking', .*; did you mean skin"),
        (["m", "O", "skin=wide"], "skin = 'wide' is no number"),
        (["m", "O", "max_temperature_K=hot"], "max_temperature_K = 'hot' is no number; give K"),
        (["m", "O", "max_energy_jump_eV=-1"], "max_energy_jump_eV = '-1' is not above 0; give eV"),
        (["m", "O", "max_temperature_jump_K=nan"], "max_temperature_jump_K = 'nan' is not above 0"),
        (["m", "O", "halo=all"], "halo = 'all' is none of features, wide"),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        parse_settings(words)


def test_unknown_symbol_is_refused_with_the_mapping():
    with pytest.raises(ConfigError, match=r"^'Q' is no element \(type 1 = O, type 2 = Q\)"):
        Settings("m", ("O", "Q")).numbers()
