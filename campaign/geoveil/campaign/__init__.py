"""What analyst, server and device agree on: the campaign, its bytes and their digest."""

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute, Value
from geoveil.campaign.channel import ChannelSpec
from geoveil.campaign.codec import decode, digest, encode, open_envelope
from geoveil.campaign.mechanisms import (
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    SmoothSpec,
)
from geoveil.campaign.model import Campaign, State
from geoveil.campaign.question import PointQuestion, Question
from geoveil.campaign.signing import PublicKey, SignatureInvalid, SigningKey, seal, signer
from geoveil.campaign.wire_queries import decode_point_question, encode_point_question
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "Allocation",
    "Attribute",
    "Campaign",
    "ChannelSpec",
    "DebiasedLaplaceSpec",
    "LipschitzLaplaceSpec",
    "MechanismSpec",
    "PlanarLaplaceSpec",
    "PointQuestion",
    "PublicKey",
    "Question",
    "SignatureInvalid",
    "SigningKey",
    "SmoothSpec",
    "State",
    "Value",
    "decode",
    "decode_point_question",
    "digest",
    "encode",
    "encode_point_question",
    "open_envelope",
    "seal",
    "signer",
]
