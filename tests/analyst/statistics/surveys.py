"""A survey with values in the clear, and what samplics says of it.

    pip install samplics==0.6.0 && python -m tests.analyst.statistics.surveys

writes golden/samplics.json again. samplics is no dependency of the project or of its tests.
"""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden" / "samplics.json"
PEOPLE = 240
CENSUS = {
    "region": {"east": 310.0, "north": 290.0, "south": 420.0, "west": 180.0},
    "sex": {"f": 640.0, "m": 560.0},
    "age": {"old": 300.0, "young": 900.0},
}


def survey() -> dict[str, np.ndarray]:
    """Return the columns of the survey: people are clustered, unequal and correlated with all."""
    rng = np.random.default_rng(20260311)
    cluster = np.repeat(np.arange(24), PEOPLE // 24)
    stratum = np.array(["a", "b", "c"])[cluster // 8]
    region = rng.choice(["east", "north", "south", "west"], PEOPLE, p=[0.2, 0.4, 0.3, 0.1])
    sex = np.where(rng.random(PEOPLE) < 0.4, "f", "m")
    age = np.where(rng.random(PEOPLE) < 0.5 + 0.2 * (sex == "f"), "old", "young")
    effect = rng.normal(size=24)[cluster]
    y = 3 + effect + 1.5 * (region == "south") - 0.7 * (sex == "f") + rng.normal(size=PEOPLE)
    return {
        "y": y.round(6),
        "x": (2 + 0.5 * y + rng.normal(size=PEOPLE)).round(6),
        "weight": (1 + 9 * rng.random(PEOPLE)).round(3),
        "stratum": stratum,
        "cluster": cluster.astype(str),
        "region": region,
        "sex": sex,
        "age": age,
    }


def areas() -> dict[str, np.ndarray]:
    """Return direct estimates of small areas, their errors, and what is known of them."""
    rng = np.random.default_rng(20260312)
    known = rng.random((30, 2))
    errors = 0.05 + 0.3 * rng.random(30)
    effects = 0.15 * rng.normal(size=30)
    values = 0.3 + known @ [0.5, -0.2] + effects + errors * rng.normal(size=30)
    return {"values": values, "errors": errors, "known": known}


def as_samplics_says() -> dict[str, object]:
    """Return what samplics computes of both."""
    import samplics
    from samplics import (
        EblupAreaModel,
        FitMethod,
        PopParam,
        ReplicateEstimator,
        ReplicateWeight,
        RepMethod,
        SampleWeight,
        TaylorEstimator,
    )

    s = survey()

    def told(param, weight, **design):
        estimator = TaylorEstimator(param)
        estimator.estimate(y=s["y"], samp_weight=weight, **design)
        if "domain" not in design:
            keys = ("point_est", "stderror", "lower_ci", "upper_ci")
            return [float(getattr(estimator, key)) for key in keys]
        return {
            str(group): [float(estimator.point_est[group]), float(estimator.stderror[group])]
            for group in estimator.point_est
        }

    clustered = {"stratum": s["stratum"], "psu": s["cluster"]}
    fitted = SampleWeight().poststratify(s["weight"], control=CENSUS["region"], domain=s["region"])
    labels = {name: s[name] for name in CENSUS}
    even = SampleWeight().poststratify(
        np.ones(PEOPLE), control=CENSUS["region"], domain=s["region"]
    )
    raked = SampleWeight().rake(
        s["weight"], margins=labels, control=CENSUS, tol=1e-14, ctrl_tol=1e-14, max_iter=1000
    )
    jackknife = ReplicateWeight(method=RepMethod.jackknife, strat=True)
    replicates = jackknife.replicate(s["weight"], s["cluster"], s["stratum"])
    columns = [c for c in replicates.columns if c.startswith("_jk_wgt")]
    replicated = ReplicateEstimator(RepMethod.jackknife, PopParam.ratio).estimate(
        y=s["y"],
        samp_weight=s["weight"],
        x=s["x"],
        rep_weights=replicates[columns].to_numpy(),
        rep_coefs=np.array(jackknife.rep_coefs),
        conservative=True,
    )
    a = areas()
    model = EblupAreaModel(method=FitMethod.reml)
    model.fit(
        yhat=a["values"],
        X=a["known"],
        area=np.arange(30),
        error_std=a["errors"],
        tol=1e-14,
        maxiter=10_000,
    )
    model.predict(X=a["known"], area=np.arange(30))
    return {
        "version": samplics.__version__,
        "total, simple": told(PopParam.total, s["weight"]),
        "mean, simple": told(PopParam.mean, s["weight"]),
        "total, strata": told(PopParam.total, s["weight"], stratum=s["stratum"]),
        "mean, strata": told(PopParam.mean, s["weight"], stratum=s["stratum"]),
        "total, clusters": told(PopParam.total, s["weight"], **clustered),
        "mean, clusters": told(PopParam.mean, s["weight"], **clustered),
        "ratio, clusters": told(PopParam.ratio, s["weight"], x=s["x"], **clustered),
        "means by region": told(PopParam.mean, s["weight"], domain=s["region"], **clustered),
        "post-stratified weights": fitted.tolist(),
        "mean, post-stratified": told(PopParam.mean, fitted, stratum=s["region"]),
        "mean, post-stratified, even": told(PopParam.mean, even, stratum=s["region"]),
        "raked weights": raked.tolist(),
        "ratio, jackknife": [float(replicated.point_est), float(replicated.stderror)],
        "small areas": [float(model.area_est[i]) for i in range(30)],
        "small areas, errors": [float(model.area_mse[i]) for i in range(30)],
        "small areas, variance": float(model.re_std**2),
        "small areas, slopes": [float(b) for b in model.fixed_effects],
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(as_samplics_says(), indent=1) + "\n")
