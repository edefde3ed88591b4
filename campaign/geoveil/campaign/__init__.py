"""What analyst, server and device agree on: the campaign, its bytes and their digest."""

from geoveil.campaign.codec import decode, digest, encode, make_campaign, open_envelope
from geoveil.campaign.consent import (
    least_counted,
    of_any_two,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
)
from geoveil.campaign.entry_points import NotInstalled
from geoveil.campaign.families import (
    Example,
    MechanismFamily,
    MechanismSpec,
    Planned,
    QueryFamily,
    Registry,
    Work,
    missing,
)
from geoveil.campaign.meaning import unbiased_for
from geoveil.campaign.mechanisms import (
    MECHANISMS,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
)
from geoveil.campaign.model import Attribute, Campaign, State, Value
from geoveil.campaign.queries import (
    QUERIES,
    PointQuestion,
    Question,
    decode_point_question,
    encode_point_question,
)
from geoveil.campaign.readings import Readings
from geoveil.campaign.signing import PublicKey, SignatureInvalid, SigningKey, seal, signer
from geoveil.campaign.smooth import SmoothSpec
from geoveil.campaign.statistic import Allocation, StatisticCampaign
from geoveil.campaign.strata import Strata
from geoveil.campaign.value import ValueCampaign
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "MECHANISMS",
    "QUERIES",
    "Allocation",
    "Attribute",
    "Campaign",
    "DebiasedLaplaceSpec",
    "Example",
    "LipschitzLaplaceSpec",
    "MechanismFamily",
    "MechanismSpec",
    "NotInstalled",
    "PlanarLaplaceSpec",
    "Planned",
    "PointQuestion",
    "PublicKey",
    "QueryFamily",
    "Question",
    "Readings",
    "Registry",
    "SignatureInvalid",
    "SigningKey",
    "SmoothSpec",
    "State",
    "StatisticCampaign",
    "Strata",
    "Value",
    "ValueCampaign",
    "Work",
    "decode",
    "decode_point_question",
    "digest",
    "encode",
    "encode_point_question",
    "least_counted",
    "make_campaign",
    "missing",
    "of_any_two",
    "open_envelope",
    "seal",
    "signer",
    "unbiased_for",
    "what_it_tells",
    "what_it_tells_of",
    "what_to_ask",
]
