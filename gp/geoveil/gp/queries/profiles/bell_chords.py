"""Upper bounds, on cells, of the steepest chords of the bell e^{−u²/2} [SGP Lemmas 4.5–4.7].

The chord's slope L(u) rises up to u = 1 and then falls; it is tabulated up to u = 4. Beyond,
e^{−w²/2}/(u − w) with w(u − w) = 1 bounds it. IEEE 754 rounds all steps, so languages agree.
"""

from __future__ import annotations

import math
from functools import lru_cache

from geoveil.gp.arrays import Array, np
from geoveil.gp.smooth.certified import BOUNDS, CertifiedBound

_PER_UNIT = 64
_FAR_GROWTH = 1 + 2.0**-7
"""Ratio of the ends of cells between 4 and `_LOOSE`; beyond that they double."""
_LOOSE = 2.0**24
_FARTHEST = 2.0**320
_ROUND_UP = 1 + 2.0**-40

# 2^20 times the larger of L at the two ends of each cell of length 1/64 from 0 to 4, rounded up.
# fmt: off
_NEAR = (
    477821, 482424, 486985, 491501, 495971, 500394, 504767, 509088, 513358, 517573, 521732,
    525834, 529878, 533861, 537782, 541641, 545435, 549163, 552824, 556417, 559941, 563394,
    566776, 570084, 573319, 576479, 579563, 582571, 585501, 588353, 591125, 593818, 596430,
    598961, 601411, 603778, 606062, 608264, 610381, 612415, 614365, 616230, 618010, 619706,
    621317, 622843, 624284, 625640, 626911, 628097, 629199, 630217, 631151, 632001, 632767,
    633451, 634052, 634571, 635009, 635365, 635641, 635838, 635955, 635994, 635994, 635955,
    635840, 635648, 635381, 635040, 634626, 634139, 633580, 632951, 632252, 631485, 630650,
    629749, 628782, 627752, 626658, 625502, 624286, 623010, 621676, 620285, 618838, 617336,
    615781, 614174, 612516, 610809, 609053, 607250, 605401, 603508, 601571, 599593, 597574,
    595516, 593420, 591287, 589118, 586915, 584680, 582412, 580115, 577788, 575433, 573051,
    570643, 568212, 565757, 563280, 560782, 558265, 555729, 553176, 550606, 548021, 545422,
    542809, 540185, 537550, 534904, 532250, 529587, 526917, 524241, 521559, 518873, 516184,
    513492, 510797, 508102, 505407, 502712, 500018, 497326, 494637, 491951, 489269, 486592,
    483920, 481254, 478595, 475942, 473298, 470661, 468033, 465415, 462806, 460207, 457619,
    455042, 452476, 449922, 447381, 444851, 442335, 439832, 437342, 434867, 432405, 429957,
    427525, 425107, 422704, 420316, 417944, 415587, 413246, 410921, 408612, 406319, 404043,
    401783, 399539, 397312, 395102, 392908, 390731, 388571, 386428, 384302, 382192, 380100,
    378024, 375965, 373924, 371898, 369890, 367899, 365924, 363966, 362025, 360100, 358191,
    356299, 354424, 352565, 350722, 348895, 347084, 345289, 343510, 341747, 339999, 338267,
    336550, 334849, 333163, 331491, 329835, 328194, 326567, 324955, 323358, 321774, 320205,
    318650, 317109, 315582, 314069, 312569, 311083, 309610, 308150, 306703, 305269, 303848,
    302439, 301043, 299659, 298288, 296929, 295582, 294246, 292923, 291611, 290310, 289021,
    287743, 286476, 285221, 283976, 282741, 281518, 280305, 279102, 277910, 276727, 275555,
    274393, 273240, 272097,
)
# fmt: on


@lru_cache(maxsize=1)
def bell_cells() -> tuple[Array, Array]:
    """Return edges (m + 1,) from 0 outwards and upper bounds of L between them, (m,)."""
    edges = [i / _PER_UNIT for i in range(len(_NEAR) + 1)]
    steepest = [most / 2**20 for most in _NEAR]
    while edges[-1] < _FARTHEST:
        steepest.append(_beyond(edges[-1]))
        edges.append(edges[-1] * (_FAR_GROWTH if edges[-1] < _LOOSE else 2.0))
    return np.array(edges), np.array(steepest)


def _beyond(u: float) -> float:
    """Return a bound of L from u ≥ 4 on; e^{−w²/2} is at most 1 − w²/2 + w⁴/8."""
    w = 2 / (u + math.sqrt(u * u - 4))
    square = w * w
    return w * (1 - square / 2 + square * square / 8) * _ROUND_UP


@lru_cache(maxsize=64)
def bell_bound(beta: float, growth: str) -> CertifiedBound:
    """Return B of the bell at reach ∞ as a function of |u|, at most 1 % above the least.

    Beyond 2^24 it is up to twice the least. `beta` > 0 is in 1/(unit of u).
    """
    return BOUNDS[growth](*bell_cells(), beta)
