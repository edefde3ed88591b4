"""What analyst, server and device agree on: the campaign, its bytes and their digest."""

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute, Value
from geoveil.campaign.channel import ChannelSpec
from geoveil.campaign.codec import decode, digest, encode, open_envelope
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
from geoveil.campaign.mechanisms import (
    MECHANISMS,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    SmoothSpec,
)
from geoveil.campaign.model import Campaign, State
from geoveil.campaign.queries import QUERIES, decode_point_question, encode_point_question
from geoveil.campaign.question import PointQuestion, Question
from geoveil.campaign.signing import PublicKey, SignatureInvalid, SigningKey, seal, signer
from geoveil.campaign.statistic import StatisticCampaign
from geoveil.campaign.value import ValueCampaign
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "MECHANISMS",
    "QUERIES",
    "Allocation",
    "Attribute",
    "Campaign",
    "ChannelSpec",
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
    "Registry",
    "SignatureInvalid",
    "SigningKey",
    "SmoothSpec",
    "State",
    "StatisticCampaign",
    "Value",
    "ValueCampaign",
    "Work",
    "decode",
    "decode_point_question",
    "digest",
    "encode",
    "encode_point_question",
    "missing",
    "open_envelope",
    "seal",
    "signer",
]
