"""The mathematics of geoveil: queries, noise, mechanisms, exact release, estimates. No I/O."""

from geoveil.gp._convolution import laplace_expectation as laplace_expectation
from geoveil.gp.arithmetic import FLOAT as FLOAT, Arithmetic as Arithmetic, Real as Real
from geoveil.gp.arrays import (
    Array as Array,
    ArrayLike as ArrayLike,
    NDArray as NDArray,
    distinct as distinct,
    np as np,
)
from geoveil.gp.coordinates import (
    Area as Area,
    AzimuthalEquidistant as AzimuthalEquidistant,
    Projection as Projection,
)
from geoveil.gp.coordinates.earth import (
    ECCENTRICITY_SQUARED as ECCENTRICITY_SQUARED,
    EQUATORIAL_RADIUS_M as EQUATORIAL_RADIUS_M,
)
from geoveil.gp.deconvolution import PointEstimator, SmoothedRegion
from geoveil.gp.deconvolution.bands import BandTotals as BandTotals
from geoveil.gp.deconvolution.choice import joint_way as joint_way, ways as ways
from geoveil.gp.deconvolution.totals import (
    GRID_EXPONENT as GRID_EXPONENT,
    MOST_AT_ONCE as MOST_AT_ONCE,
    EachTotals as EachTotals,
    Groups as Groups,
    Products as Products,
    Sums as Sums,
    Totals as Totals,
)
from geoveil.gp.digests import blake2b as blake2b, sha256 as sha256
from geoveil.gp.errors import (
    ContradictionError as ContradictionError,
    GeoVeilError,
    NotPrivateWarning,
    ParameterError,
    PrivateValueError,
    UnsupportedError,
)
from geoveil.gp.estimation import (
    Accumulator as Accumulator,
    Estimate as Estimate,
    ForgedShare,
    estimate as estimate,
    sums_of as sums_of,
)
from geoveil.gp.exact import (
    BALL as BALL,
    BITS as BITS,
    INT64_MAX as INT64_MAX,
    INT64_MIN as INT64_MIN,
    as_given as as_given,
    log_nearest as log_nearest,
    paced,
    round_down as round_down,
    round_to_grid as round_to_grid,
    round_up as round_up,
    share as share,
    step_exponent_of as step_exponent_of,
    upper as upper,
    working_precision as working_precision,
)
from geoveil.gp.extras import MissingExtraError as MissingExtraError, needed_for as needed_for
from geoveil.gp.intervals import (
    Interval as Interval,
    IntervalMethod as IntervalMethod,
    interval_of_mean as interval_of_mean,
    interval_of_weighted_mean as interval_of_weighted_mean,
    kept_within as kept_within,
    margins_of_mean as margins_of_mean,
    reach_at_all_looks as reach_at_all_looks,
)
from geoveil.gp.lazy import lazy as lazy
from geoveil.gp.limits import UNLIMITED as UNLIMITED, Limits as Limits
from geoveil.gp.mechanisms import (
    ApproximateLaplace,
    DebiasedLaplace,
    LipschitzMechanism,
    LocalLaplace,
    Mechanism,
    PlanarLaplace,
    QueryMechanism,
    RandomizedResponse,
    SmoothMechanism,
    VectorAnswer,
    VectorSmoothMechanism,
)
from geoveil.gp.mechanisms.additive import AdditiveMechanism as AdditiveMechanism
from geoveil.gp.mechanisms.approximate import paper_cost as paper_cost
from geoveil.gp.mechanisms.categories import (
    BITS_A_COLUMN as BITS_A_COLUMN,
    MOST_EPSILON as MOST_EPSILON,
    CategoryMechanism as CategoryMechanism,
    KaryResponse as KaryResponse,
    OrdinalResponse as OrdinalResponse,
    SubsetResponse as SubsetResponse,
    UnaryEncoding as UnaryEncoding,
    category_mechanism as category_mechanism,
)
from geoveil.gp.mechanisms.planar import DIMENSIONS as DIMENSIONS
from geoveil.gp.nested import Coarsening
from geoveil.gp.noise import (
    NOISES,
    GeneralizedCauchy,
    Laplace,
    LaplacePareto,
    Noise,
    PowerLaw,
    StudentT,
)
from geoveil.gp.noise.inversion import InvertedNoise as InvertedNoise
from geoveil.gp.price import (
    Basis as Basis,
    NoiseVariance as NoiseVariance,
    estimated_noise_variance as estimated_noise_variance,
)
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy, LogScale, compose
from geoveil.gp.privacy.geo import LOG as LOG
from geoveil.gp.queries import (
    Cap,
    Capped,
    Disc,
    FormulaProfile,
    Gaussian,
    GaussianKernel,
    Linear,
    Polygon,
    Profile,
    Query,
    Radial,
    Ramp,
    Range,
    Smoothstep,
    SoftIndicator as SoftIndicator,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.queries.capped import varies_to as varies_to
from geoveil.gp.queries.indicator import PROFILES as PROFILES
from geoveil.gp.queries.polygon import geometry as geometry
from geoveil.gp.queries.profiles.enclosed import EnclosedProfile as EnclosedProfile
from geoveil.gp.queries.profiles.soft_step import SoftStep as SoftStep
from geoveil.gp.queries.profiles.tabulated import require_pieces as require_pieces
from geoveil.gp.randomness import (
    LazyUniform as LazyUniform,
    RandomSource,
    SeededSource,
    SystemSource,
    chosen_source as chosen_source,
)
from geoveil.gp.report_moments import (
    MomentsAskedOnce as MomentsAskedOnce,
    ReportMoments as ReportMoments,
)
from geoveil.gp.reprs import (
    ReprByArguments as ReprByArguments,
    ValueObject as ValueObject,
    enum_repr as enum_repr,
    six_digits as six_digits,
)
from geoveil.gp.smooth.frontier import CALIBRATIONS as CALIBRATIONS, Frontier as Frontier
from geoveil.gp.smooth.growth import DECAYS as DECAYS, EXPONENTIAL as EXPONENTIAL, LINEAR as LINEAR
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "NOISES",
    "ApproximateLaplace",
    "Cap",
    "Capped",
    "Coarsening",
    "DebiasedLaplace",
    "Disc",
    "ForgedShare",
    "FormulaProfile",
    "Gaussian",
    "GaussianKernel",
    "GeneralizedCauchy",
    "GeoPrivacy",
    "GeoVeilError",
    "Laplace",
    "LaplacePareto",
    "Linear",
    "LipschitzMechanism",
    "LocalLaplace",
    "LocalPrivacy",
    "LogScale",
    "Mechanism",
    "Noise",
    "NotPrivateWarning",
    "ParameterError",
    "PlanarLaplace",
    "PointEstimator",
    "Polygon",
    "PowerLaw",
    "PrivateValueError",
    "Profile",
    "Query",
    "QueryMechanism",
    "Radial",
    "Ramp",
    "RandomSource",
    "RandomizedResponse",
    "Range",
    "SeededSource",
    "SmoothMechanism",
    "SmoothedRegion",
    "Smoothstep",
    "StudentT",
    "SystemSource",
    "TabulatedProfile",
    "Threshold",
    "TwoWayThreshold",
    "UnsupportedError",
    "VectorAnswer",
    "VectorSmoothMechanism",
    "compose",
    "paced",
]
