"""Test the sentences on reports: numbers follow the law, and no risk is rounded down.

The oracle knows no closed form: it sums the density of the mechanism's own reports over the outputs
on one side of 1/2, or over those that favour one of two values.
"""

import math
import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    SmoothSpec,
    price_text,
    privacy_text,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
)
from geoveil.campaign.consent import likelihood
from geoveil.campaign.saying import percent, right_at_most, times
from geoveil.gp import (
    Cap,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Polygon,
    PrivateValueError,
    Range,
    Threshold,
    TwoWayThreshold,
)
from tools.vectors.consent import surveys
from tools.vectors.examples import every_campaign, small_campaign

SHARE = re.compile(r"(?:that guess is right|the plain (?:yes|no),) (more than 99\.9|[\d.]+) % of")
SLACK = SmoothSpec(noise="laplace", growth="linear", calibration="paper")
SPECS = (
    *(DebiasedLaplaceSpec(), LipschitzLaplaceSpec(), SmoothSpec(), SLACK),
    *(SmoothSpec(noise="student-t", nu=3.0), SmoothSpec(noise="generalized-cauchy", gamma=4.0)),
)


def shares(sentences):
    """Return (kind, stated chance) for each sentence about a value: 'guess' or 'plain'."""
    found = []
    for sentence in sentences:
        if match := SHARE.search(sentence):
            kind = "plain" if "exactly" in sentence else "guess"
            found.append((kind, match[1]))
    return found


def is_rounded(stated, truth, margin=1e-6):
    """Whether a stated per cent is the truth, known to a margin, rounded up by less than 0.1."""
    if stated.startswith("more"):
        return truth > 0.999 - margin
    return -margin <= float(stated) / 100 - truth < 0.001 + margin


def by_density(mechanism, point):
    """Return P[report on the side of 1/2 that f is on] and P[exactly 0 or 1 there], by a sum."""
    at = np.asarray(point)[None]
    inside = float(mechanism.query.value(at)[0]) >= 0.5
    if mechanism.atoms:
        low, high = mechanism.range
        atoms = [math.exp(float(mechanism.log_density(a, at)[0])) for a in (0.0, 1.0)]
        grid = np.linspace(low, high, 100_001)[1:-1]
    else:
        # A tail by quantiles of a Cauchy law, which is no lighter.
        atoms = [0.0, 0.0]
        u = np.linspace(-1, 1, 100_001)[1:-1]
        grid = 0.5 + mechanism.largest_scale * np.tan(np.pi / 2 * u)
    middles = (grid[1:] + grid[:-1]) / 2
    masses = np.exp(mechanism.log_density(middles, at)) * np.diff(grid)
    masses[~np.isfinite(masses)] = 0.0
    whole = masses.sum() + sum(atoms)
    assert whole == pytest.approx(1, abs=2e-4)
    side = middles >= 0.5 if inside else middles < 0.5
    return masses[side].sum() + atoms[inside], atoms[inside]


def some_queries(draw):
    at, width = draw.uniform(-30, 30), draw.uniform(8, 60)
    polygon = ((-20.0, -15.0), (25.0, -20.0), (10.0, 30.0))
    for profile in ("smoothstep", "linear"):
        yield Threshold(at, width, profile)
        yield Range(at, at + width + draw.uniform(0, 60), width, profile)
        yield TwoWayThreshold((at, 3.0), width, profile)
        yield Disc((at, 2.0), width, width, profile)
        yield Polygon(polygon, width, profile)


def some_campaigns(draw):
    privacy = GeoPrivacy(draw.uniform(0.5, 2), 8.0, "dollar")
    for query in some_queries(draw):
        for spec in SPECS:
            if spec == DebiasedLaplaceSpec() and query.profile.name == "linear":
                continue
            given = replace(privacy, delta=1e-5) if spec == SLACK else privacy
            yield small_campaign(
                "some", privacy=given, mechanism=spec, questions=(Question("q", query),)
            )


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_stated_chances_are_those_of_the_law(seed):
    """54 campaigns a seed, values by chance: within the tenth of a per cent that is shown."""
    draw = Random(seed)
    told = noticed = 0
    for campaign in some_campaigns(draw):
        (mechanism,) = campaign.mechanisms
        value = [draw.uniform(-60, 60) for _ in range(campaign.dimension)]
        value = value[0] if len(value) == 1 else value
        truth = dict(zip(("guess", "plain"), by_density(mechanism, value), strict=True))
        found = shares(what_it_tells_of(campaign, value))
        assert ("plain" in dict(found)) == (truth["plain"] > 0.5)
        for kind, stated in found:
            assert is_rounded(stated, truth[kind], 3e-4), campaign  # the sum's own error
            told += 1
            noticed += stated.startswith("more") or not is_rounded(
                stated, truth[kind] + 0.002, 3e-4
            )
    assert told > 54
    assert noticed == told  # a law that is 0.2 % off


def test_a_range_answered_from_a_reading_has_the_law_of_a_perturbed_number():
    asked = Range(40_000.0, 60_000.0, 16_000.0, "smoothstep")
    every = Readings(every=timedelta(days=91))
    campaign = small_campaign("r", questions=(Question("q", asked),), readings=every)
    noise = np.random.default_rng(7).laplace(scale=8_000, size=1_000_000)
    for value in (20_000.0, 45_000.0, 50_000.0, 75_000.0):
        z = value + noise
        inside = asked.value(value) >= 0.5
        truth = np.mean((asked.signed_distance(z) >= 0) == inside)
        (kind, stated), *_ = shares(what_it_tells_of(campaign, value))
        assert kind == "guess"
        margin = 5 * math.sqrt(0.25 / len(z))  # α = 6e-7
        assert is_rounded(stated, truth, margin)
        without = replace(campaign, readings=None)
        assert what_it_tells_of(without, value, read=True) == what_it_tells_of(campaign, value)


@pytest.mark.deep(keep=0)
def test_no_outcome_is_likelier_than_stated_and_no_better_guess_exists():
    """Sup of the ratio and total variation of two laws, over pairs as far apart as is stated."""
    for name, campaign in surveys():
        elsewhere = name.startswith("bell") or not campaign.mechanisms  # in test_consent_laws
        if campaign.columns > 1 or campaign.readings or campaign.period or elsewhere:
            continue
        (mechanism,) = campaign.mechanisms
        said = what_it_tells(campaign)
        apart = campaign.report_privacy.per
        stated = re.search(r"at most ([\d.]+) times", said[0])
        right = re.search(r"at most ([\d.]+) % of the time", said[1])
        for x in np.arange(60_000.0, 140_000.0, 10_000.0):
            ratio, best = _told_apart(mechanism, x, x + apart)
            if stated is None:  # more than a million: nothing is promised
                assert name == "weak"
                continue
            if campaign.privacy.delta == 0:
                assert ratio <= float(stated[1]) + 1e-6, name
            assert best <= float(right[1]) / 100 + 1e-3, name


def _told_apart(mechanism, x, other):
    u = np.linspace(-1, 1, 100_001)[1:-1]
    grid = 0.5 + 0.5 * np.tan(np.pi / 2 * u)
    if mechanism.atoms:
        grid = np.linspace(*mechanism.range, 100_001)[1:-1]
    middles = (grid[1:] + grid[:-1]) / 2
    laws = []
    for at in (x, other):
        log = np.nan_to_num(mechanism.log_density(middles, np.array([at])), neginf=-800.0)
        law = [np.exp(log) * np.diff(grid)]
        if mechanism.atoms:
            law.append(
                np.exp([float(mechanism.log_density(a, np.array([at]))[0]) for a in (0.0, 1.0)])
            )
        laws.append(np.concatenate(law))
    first, second = laws
    seen = (first > 1e-12) | (second > 1e-12)
    ratio = np.exp(np.abs(np.log(first[seen]) - np.log(second[seen]))).max()
    return ratio, (1 + np.abs(first - second).sum() / 2) / 2


def test_a_slack_is_not_told_as_a_chance_that_more_is_told():
    """(ε, δ) bounds the mass beyond e^ε, not how often a report is beyond it, which is larger."""
    privacy = GeoPrivacy(1.0, 8_000.0, "dollar", delta=1e-6)
    factor, delta = math.exp(privacy.epsilon), privacy.delta
    # The law that meets (ε, δ) with equality between 0 and 1: truth, lie, and certainty for each.
    truth = (1 - delta) * factor / (1 + factor)
    first, second = (
        np.array([delta, truth, 1 - delta - truth, 0]),
        np.array([0, 1 - delta - truth, truth, delta]),
    )
    assert np.maximum(first - factor * second, 0).sum() == pytest.approx(delta)
    best = (1 + np.abs(first - second).sum() / 2) / 2
    assert best == pytest.approx(right_at_most(1.0, delta))
    # A law of the same δ that is beyond e^ε a hundred times as often.
    wide = 100 * delta
    p = np.array([wide, 1 - wide])
    q = np.array([(wide - delta) / factor, 1 - (wide - delta) / factor])
    assert np.maximum(p - factor * q, 0).sum() == pytest.approx(delta)
    assert p[p > factor * q].sum() == pytest.approx(wide)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_how_far_a_perturbed_point_goes(dimension):
    campaign = small_campaign("points", mechanism=PlanarLaplaceSpec(dimension))
    said = what_it_tells(campaign)[-1]
    within, stated = re.search(r"within ([\d,]+) dollar of yours ([\d.]+) %", said).groups()
    radius = np.random.default_rng(dimension).gamma(dimension, 8_000, 1_000_000)
    truth = np.mean(radius <= float(within.replace(",", "")))
    margin = 5 * math.sqrt(0.05 * 0.95 / 1e6)  # α = 6e-7
    assert truth - margin <= float(stated) / 100 <= truth + 0.001 + margin


def test_numbers_are_rounded_up():
    draw = Random(3)
    for _ in range(2_000):
        nats, chance = draw.uniform(1e-6, 13), draw.uniform(0.5, 0.999)
        factor = float(times(nats).replace(",", ""))
        assert 0 <= factor / math.exp(nats) - 1 < 0.0101
        assert is_rounded(percent(chance).removesuffix(" %"), chance)
    assert times(14.0) is None
    grid = [right_at_most(nats) for nats in np.linspace(0, 40, 99)]
    assert grid[0] == 0.5
    assert all(a <= b for a, b in pairwise(grid))


def test_no_cap_is_promised_of_a_reading():
    """Control: of a report with its own noise, a cap makes guesses about far values less sure."""
    of = dict(surveys())
    for value in (-1e6, 20_000.0, 99_000.0, 250_000.0):
        told = [what_it_tells_of(of[name], value, read=True) for name in ("debiased", "capped")]
        assert told[0] == told[1]
    assert what_it_tells_of(of["debiased"], -1e6) != what_it_tells_of(of["capped"], -1e6)


def test_no_price_is_rounded_down():
    """Control: to the nearest six digits, half of the 4,000 numbers understate the loss."""
    draw, less = Random(4), 0
    for _ in range(1_000):
        epsilon, per, delta, reach = (math.exp(draw.uniform(-9, 9)) for _ in range(4))
        privacy = GeoPrivacy(epsilon, per, "dollar", delta=delta / 1e4, reach=reach)
        shown = [float(x) for x in re.findall(r"\d[\d.e+-]*", price_text(privacy, "dollar"))]
        exact = (privacy.epsilon, privacy.per, privacy.delta, privacy.reach)
        for sign, x, of in zip((1, -1, 1, -1), exact, shown, strict=True):
            assert 0 <= sign * (of / x - 1) <= 1e-5
            less += sign * (float(f"{x:g}") / x - 1) < 0
    assert less > 1_800
    assert (
        price_text(GeoPrivacy(0.1 + 0.2, 8_000.0, "dollar"), "Dollar") == "ε = 0.3 per 8000 Dollar"
    )


def test_no_sentence_forgets_that_any_two_values_are_alike():
    """Control: without the cap or the range, both guarantees are said to hide nothing."""
    of, nothing = dict(surveys()), re.compile("not hide the difference|nearly always")
    for name, without in (("capped", {"cap": None}), ("clamped", {"attribute": INCOMES})):
        strong = GeoPrivacy(20.0, 8_000.0, "dollar")
        bounded = of[f"{name}-below-its-price"]
        if name == "capped":
            bounded = replace(bounded, cap=Cap(3.0, 3.5))
        said = [*what_it_tells(bounded), *what_it_tells_of(bounded, 52_000.0)]
        assert bounded.privacy == strong
        assert not any(map(nothing.search, said))
        free = replace(bounded, **without)
        assert sum(map(bool, map(nothing.search, what_it_tells(free)))) >= 2


@pytest.mark.parametrize("read", [False, True])
def test_a_number_too_large_to_send_is_refused_before_its_distance_is_stated(read):
    """Squares of its distances are no doubles. Controls: the largest number, a small distance."""
    bell = dict(surveys())["bell"]
    for value in (1.1e90, -1e155, 1.7e308):
        with pytest.raises(PrivateValueError, match="from -1e\\+90 to 1e\\+90"):
            what_it_tells_of(bell, value, read=read)
    assert "1,000,000" in what_it_tells_of(bell, 1e90, read=read)[1]
    query = GaussianKernel(0.0, 24_000.0)
    zero = replace(bell, questions=(Question("near 0", query),), step_exponent=None)
    assert len(what_it_tells_of(zero, 5e-324, read=read)) == 1
    assert "(0.5 dollar away)" in what_it_tells_of(zero, 0.5, read=read)[1]


def test_nobody_is_said_to_tell_values_that_answer_alike():
    """20,000 and 28,000 dollar are 90 noise scales from the threshold: both always send 0."""
    weak = dict(surveys())["weak"]
    near, *_ = what_it_tells_of(weak, 20_000.0)
    assert near == ("From it somebody may be able to tell 20,000 from 28,000 dollar nearly always.")
    law = [weak.mechanisms[0].log_density(0.0, x) for x in (20_000.0, 28_000.0)]
    assert max(map(abs, law)) < 1e-30


def test_a_number_on_a_log_scale_is_said_to_be_as_near_as_it_is():
    """The excess over 1 keeps two digits. Control: of the factor, 1.0005 would be 1.1."""
    points = dict(surveys())["points-by-ratio"]
    for epsilon in (0.01, 1.0, 40.0, 1_000.0):
        asked = replace(points, privacy=GeoPrivacy.per_factor(epsilon, 2, "dollar"))
        (said,) = (one for one in what_it_tells(asked) if "is sent that is within" in one)
        shown = float(re.search("factor of ([\\d.,]+) of", said)[1].replace(",", ""))
        true = math.expm1(3 * math.log(2) / epsilon)
        assert 0 <= (shown - 1) / true - 1 < 0.1
        assert round(1 + true, 1) != 1.0 or shown < 1.05


def test_an_answer_from_a_reading_is_told_by_its_own_noise():
    """Control: by the sum over all answers, of which a reading has only one noise."""
    repeat = dict(surveys())["repeat"]
    read, anew = (what_it_tells_of(repeat, 52_000.0, read=of)[0] for of in (True, False))
    assert read == "From it nobody can tell 52,000 from 60,000 dollar better than 73.2 to 26.8."
    assert "99.4 to 0.6" in anew


def test_the_price_of_a_reading_is_no_sum_of_answers():
    three = tuple(
        Question(f"{at}", Threshold(at, 24_000.0, "smoothstep")) for at in (1e4, 2e4, 3e4)
    )
    asked = {"mechanism": DebiasedLaplaceSpec(), "questions": three}
    summed = small_campaign("c", allocation=Allocation.REPEAT, **asked)
    assert "3 answers of" in privacy_text(summed)
    read = small_campaign(
        "c", allocation=Allocation.SPLIT, readings=Readings(every=timedelta(days=9)), **asked
    )
    assert read.report_privacy.exact_rate < read.privacy.exact_rate
    assert "answers of" not in privacy_text(read)


def test_every_campaign_has_its_sentences():
    for name, campaign, _ in every_campaign():
        said = what_it_tells(campaign)
        assert len(said) >= 2, name
        assert all(sentence.endswith(".") for sentence in said), name


ROOT = Path(__file__).parents[2]
INCOME = GeoPrivacy(1, 8_000, "dollar")
INCOMES = Attribute(name="household income", unit="dollar")
UNTRUE = re.compile(
    r"never gets your answer|not your answer|noise can take it|far beyond either"
    r"|values so far apart (?:look|are)|at most e\^1|at most e¹|at most 2\.7 times|\b73 to 27\b"
)


def readable():
    """Yield each document, page and module with its text, on one line."""
    folders = ("docs", "apps", "campaign", "client", "analyst", "aggregator", "gp", "research")
    files = [ROOT / "README.md", *(one for of in folders for one in (ROOT / of).rglob("*"))]
    for file in files:
        kept = file.suffix in {".md", ".py", ".js", ".ts", ".html"} and "node_modules" not in str(
            file
        )
        if kept and not {"build", "dist", "decisions"} & set(file.parts):
            yield file, " ".join(re.sub(r"(?m)^\s*(?://|>|#)", "", file.read_text()).split())


def test_no_document_page_or_module_says_what_is_not_true():
    """The wish of an earlier page: what is sent of the README's survey is the plain yes or no."""
    assert UNTRUE.search("A survey that never gets your answer.".lower())
    for file, text in readable():
        assert not UNTRUE.search(text.lower()), file


def test_the_sentences_of_the_documents_are_those_that_people_are_told():
    """Each sentence of a report that a document states, of the survey that it speaks of."""
    band = Question("above 100k", Threshold(100_000, 24_000, "smoothstep"))
    survey = small_campaign(
        "income", privacy=INCOME, questions=(band,), mechanism=DebiasedLaplaceSpec()
    )
    capped = replace(survey, cap=Cap(4.0, 4.0))
    told = {*what_it_tells(survey), *what_it_tells_of(survey, 52_000), *what_it_tells(capped)}
    whatever = likelihood(INCOME, "any", "one income", "another")
    told.add(whatever.replace("A report", "Whatever leaves the device"))
    told |= {sentence.removesuffix(".") for sentence in told}
    told.add(what_to_ask(survey, 999_999_999_999))
    begins = (
        r"((?:This report is at most|From it (?:nobody|the server) can|Somebody who thinks that"
    )
    begins += r"|Whatever leaves the device is at most|You wrote [\d,]+\. ).*?[.;?])(?=[ \"*\])]|$)"
    seen = {}
    for file, text in readable():
        if file.suffix == ".md":
            seen |= dict.fromkeys(re.findall(begins, text.replace("**", "")), file)
    assert len(seen) >= 5
    for sentence, file in seen.items():
        assert sentence.rstrip(";").rstrip() in told, (file, sentence)


def test_only_the_catalogue_has_the_sentences():
    """Siblings would drift apart: pages and commands say what data/en.json has."""
    makers = re.compile(r"times as likely for|nobody can tell|guess that")
    found = {str(file.relative_to(ROOT)) for file, text in readable()
             if file.suffix != ".md" and makers.search(text)}  # fmt: skip
    assert "nobody can tell" in (ROOT / "campaign/geoveil/campaign/data/en.json").read_text()
    assert found == {
        "client/typescript/src/gen/messages/en.ts",  # which is made of it
        "apps/geoveil/gateway/files/geoveil-en.js",  # which has that
        "campaign/geoveil/campaign/consent.py",  # whose examples show sentences
        "campaign/geoveil/campaign/consent_forms.py",  # likewise
        "apps/geoveil/console/rendering.py",  # likewise
        "client/typescript/test/forms.test.ts",  # which compares them
        "docs/site/moving.js",  # which tells of two people that it draws
    }
