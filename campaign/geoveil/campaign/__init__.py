"""What analyst, server and device agree on: the campaign, its bytes and their digest."""

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute, Value
from geoveil.campaign.codec import decode, digest, encode
from geoveil.campaign.mechanisms import (
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    SmoothSpec,
)
from geoveil.campaign.model import Campaign, Question, State
from geoveil.campaign.signing import PublicKey, SignatureInvalid, SigningKey, seal, signer

__all__ = [
    "Allocation",
    "Attribute",
    "Campaign",
    "DebiasedLaplaceSpec",
    "LipschitzLaplaceSpec",
    "MechanismSpec",
    "PublicKey",
    "Question",
    "SignatureInvalid",
    "SigningKey",
    "SmoothSpec",
    "State",
    "Value",
    "decode",
    "digest",
    "encode",
    "seal",
    "signer",
]
