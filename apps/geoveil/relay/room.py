"""Check that a campaign fits the two message sizes of a relay."""

from geoveil.campaign import Campaign
from geoveil.gp import ParameterError
from geoveil.proto.v1 import campaign_pb2, collector_pb2
from geoveil.relay.binary_http import InnerResponse, write_response
from geoveil.relay.encapsulation import SIZES, room_in_response

_HELPS = {
    "queries": "ask fewer questions",
    "fields": "shorten its texts and options",
    "token_key": "have fewer periods",
}


def require_room(campaign: Campaign) -> None:
    """Refuse a campaign that is too large, once signed, for a relay's response.

    A report to a campaign that fits has at most 3 kB, so it fits too.

    Raises:
        ParameterError: if it is too large, with its largest part and advice.
    """
    message = campaign_pb2.Campaign.FromString(campaign.encoded)
    signature = campaign_pb2.CampaignSignature(public_key=bytes(32), signature=bytes(64))
    envelope = campaign_pb2.CampaignEnvelope(campaign=campaign.encoded, signature=signature)
    answer = collector_pb2.GetCampaignResponse(
        envelope=envelope, state=campaign_pb2.CAMPAIGN_STATE_OPEN
    )
    head = ((b"content-type", b"application/proto"),)
    sent = write_response(InnerResponse(200, head, answer.SerializeToString()))
    over = len(sent) - room_in_response(SIZES[-1])
    if over <= 0:
        return
    sizes = {name: _part(message, name) for name in message.DESCRIPTOR.fields_by_name}
    largest = max(sizes, key=lambda name: sizes[name])
    name, size, helps = largest, sizes[largest], _HELPS.get(largest, "shorten it")
    if largest == "fields":
        longest = max(message.fields, key=lambda field: field.ByteSize())
        name, size = f"field {longest.attribute.name}", longest.ByteSize()
    most = message.ByteSize() - over
    expected = (
        f"less: {helps}, because a relay carries {most:,} bytes of a campaign, not {most + over:,}"
    )
    raise ParameterError(name, f"{size:,} bytes", expected)


def _part(message: campaign_pb2.Campaign, name: str) -> int:
    """Return the bytes of a campaign's field."""
    rest = campaign_pb2.Campaign()
    rest.CopyFrom(message)
    rest.ClearField(name)  # type: ignore[arg-type]  # a name of its descriptor
    return message.ByteSize() - rest.ByteSize()
