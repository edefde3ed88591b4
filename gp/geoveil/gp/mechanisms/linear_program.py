"""The linear programme of the best unbiased channel, and the proof of how good it is [MATH §8].

A channel is a table P of rows j = 0 … M−1 over outputs y:

    minimise Σ_j π_j Σ_y P_jy (y − f_j)²   subject to   Σ_y P_jy = 1,  Σ_y y P_jy = f_j,
    P_jy ≤ r_j P_j+1,y  and  P_j+1,y ≤ r_j P_jy,  P ≥ 0.

**Duality.** Numbers α_j, β_j are dual feasible for *all real y* if for every y the costs
c_j(y) = π_j(y − f_j)² − α_j − β_j y satisfy Σ_j c_j(y) p_j ≥ 0 for each p ≥ 0 whose neighbours
differ at most by the factors r_j. Then every feasible P, on whatever outputs, costs at least
Σ α_j + β_j f_j: sum c_j(y) P_jy over j and y. The least such sum with p_0 = 1 is V_0(y), where
V_j = c_j + min(r_j V_j+1, V_j+1/r_j): one pass, exact. So outputs at which V < 0 improve the
programme (they are added until little is left to gain), and a shift of α by −κπ makes V ≥ 0 on a
mesh of y.

**Between the points of the mesh.** For each p the sum is a quadratic in y with the leading
coefficient A = Σ π_j p_j, hence at most A·h²/4 below its chord over a mesh width h: a further shift
by h²/4 makes V ≥ 0 between them. **Beyond the mesh** it is enough that the sum points outwards at
either end: that Σ c'_j(y) p_j ≥ 0 at the upper end, and ≤ 0 at the lower one, for every p; the same
pass decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.mechanisms.interior_point import least_cost

_FIRST = 40
_MESH = 6000
_ACTIVE = 1e-9
_ROUNDING = 1e-9
"""Share of the bound that float64 may have lost in it."""


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """The programme whose solution is a channel; lengths are in the unit of the outputs.

    Args:
        targets: f_j, (M,).
        ratios: r_j > 1, (M − 1,).
        weights: π_j ≥ 0, (M,), with sum 1.
        reach: how far the outputs may go beyond the targets, > 0.
        spacing: outputs are multiples of it; 0 if they need not be.
    """

    targets: Array
    ratios: Array
    weights: Array
    reach: float
    spacing: float = 0.0

    def mesh(self, count: int) -> Array:
        """Return outputs to choose from: `count` + 1 of them, or fewer on a coarse grid."""
        low, high = self.targets.min() - self.reach, self.targets.max() + self.reach
        return self.on_grid(np.linspace(low, high, count + 1))

    def on_grid(self, outputs: Array) -> Array:
        """Return the outputs moved to multiples of the spacing, increasing."""
        if self.spacing:
            outputs = np.round(outputs / self.spacing) * self.spacing
        return distinct(outputs)


@dataclass(frozen=True, slots=True)
class Solution:
    """An optimum over given outputs, to the solver's tolerance, with its dual."""

    outputs: Array
    table: Array
    """P, (M, m)."""
    alpha: Array
    beta: Array
    cost: float


def solve(program: LinearProgram, rounds: int, floor: float = 0.0) -> Solution:
    """Return an optimal channel, over outputs that are found on the way.

    Args:
        program: what to solve.
        rounds: how often outputs are added; the gap to the best halves with each about twice.
        floor: τ, the share of every row that is kept for the uniform row: P ← (1 − τ)P + τ/m, for
            which the means are made to come out as the targets.

    Raises:
        UnsupportedError: if the solver finds no channel.
    """
    # The levels far from the band, where most people may be: any other output is noise to them.
    levels = [program.targets.min(), program.targets.max()]
    outputs = program.on_grid(np.concatenate([program.mesh(_FIRST), levels]))
    channel = optimum(program, outputs, floor)
    fine = program.mesh(_MESH)
    for _ in range(rounds):
        value = shortfall(program, channel.alpha, channel.beta, fine)
        inner = value[1:-1]
        dips = (inner < value[:-2]) & (inner <= value[2:]) & (inner < 0)
        active = channel.table.max(axis=0) > _ACTIVE
        wider = distinct(np.concatenate([channel.outputs[active], fine[1:-1][dips]]))
        if np.array_equal(wider, channel.outputs):
            break
        channel = optimum(program, wider, floor)
    return channel


def optimum(program: LinearProgram, outputs: Array, floor: float = 0.0) -> Solution:
    """Return the best channel over these outputs; see `solve`."""
    columns = len(outputs)
    center, half = (outputs[0] + outputs[-1]) / 2, (outputs[-1] - outputs[0]) / 2
    y = (outputs - center) / half
    # What the uniform row adds to the mean is taken from the targets.
    f = ((program.targets - center) / half - floor * float(y.mean())) / (1 - floor)
    costs = program.weights * (y[:, None] - f) ** 2
    found = least_cost(costs, program.ratios, y, f)
    if found is None:
        raise UnsupportedError(
            "the solver found no optimal channel for this query and guarantee; use"
            " DebiasedLaplace, or a wider band"
        )
    table = np.maximum(found.table.T, 0.0)
    table /= table.sum(axis=1, keepdims=True)
    # The dual for y, from that for (y − center)/half; costs were divided by half².
    slope = found.beta * half
    return Solution(
        outputs,
        (1 - floor) * table + floor / columns,
        found.alpha * half**2 - slope * center,
        slope,
        found.cost * float(half) ** 2,
    )


def shortfall(program: LinearProgram, alpha: Array, beta: Array, y: Array) -> Array:
    """Return V_0(y): negative where an output y would violate the dual. See the module."""
    squares = (y[:, None] - program.targets) ** 2 * program.weights
    return _least(program, squares - alpha - beta * y[:, None])


def _least(program: LinearProgram, costs: Array) -> Array:
    """Return the least Σ_j c_j p_j over all p with p_0 = 1 that the ratios permit, (n,)."""
    total = costs[:, -1]
    for j in range(len(program.ratios) - 1, -1, -1):
        ratio = program.ratios[j]
        total = costs[:, j] + np.minimum(ratio * total, total / ratio)
    return total


def certified(program: LinearProgram, channel: Solution, count: int = _MESH) -> float:
    """Return a number that no channel costs less than, whatever its outputs. See the module.

    It is a proof up to the rounding of float64, for which 1e-9 of it is given away.

    Args:
        program: what is solved.
        channel: the solution, with that of the dual.
        count: points of the mesh; of fewer the bound is a little lower.
    """
    mesh = np.linspace(
        program.targets.min() - 2 * program.reach, program.targets.max() + 2 * program.reach, count
    )
    width = float(mesh[1] - mesh[0])

    for end, sign in ((mesh[-1], 1.0), (mesh[0], -1.0)):
        outward = sign * (2 * program.weights * (end - program.targets) - channel.beta)
        if float(_least(program, outward[None])[0]) < 0:
            return 0.0
    # Where nearly all weight is on few rows, to lower α in proportion to it is no cure elsewhere.
    even = np.full_like(program.weights, 1 / len(program.weights))
    kappa = min(_needed(program, channel, mesh, shift) for shift in (program.weights, even))
    bound = float(channel.alpha.sum() + channel.beta @ program.targets) - kappa - width**2 / 4
    return max(bound * (1 - _ROUNDING), 0.0)


def _needed(program: LinearProgram, channel: Solution, mesh: Array, shift: Array) -> float:
    """Return a κ for which α − κ·shift is dual feasible on the mesh; infinite if it proves nothing.

    Args:
        program: what is solved.
        channel: the solution, with that of the dual.
        mesh: outputs.
        shift: ≥ 0, with sum 1, so that the bound is lowered by κ.
    """

    def violated(kappa: float, points: Array) -> Array:
        alpha = channel.alpha - kappa * shift
        return points[shortfall(program, alpha, channel.beta, points) < 0]

    # V rises with κ, so that what is not violated by one needs no look with a greater one.
    low, high = 0.0, float(mesh[1] - mesh[0]) ** 2
    left = violated(low, mesh)
    while len(still := violated(high, left)):
        if high > channel.cost:
            return np.inf
        low, high, left = high, 4 * high, still
    for _ in range(12):
        middle = (low + high) / 2
        still = violated(middle, left)
        low, high, left = (middle, high, still) if len(still) else (low, middle, left)
    return high
