"""The shared definitions of analyst, server and device: the campaign, its bytes and digest."""

from geoveil.campaign.admission import (
    MOST_REPORTS as MOST_REPORTS,
    REPORT_ID_BYTES as REPORT_ID_BYTES,
    Admission as Admission,
    Reason as Reason,
)
from geoveil.campaign.attribute_campaign import (
    Attribute,
    AttributeCampaign,
    Value,
    require_attribute as require_attribute,
)
from geoveil.campaign.codec import (
    CATEGORIES as CATEGORIES,
    decode,
    decode_attribute_campaign as decode_attribute_campaign,
    decode_privacy as decode_privacy,
    digest,
    encode,
    encode_privacy as encode_privacy,
    kind_of_category as kind_of_category,
    make_campaign,
    open_envelope,
)
from geoveil.campaign.connection import (
    TLS as TLS,
    CallError as CallError,
    TLSRequiredError as TLSRequiredError,
    address_to_listen_on as address_to_listen_on,
    failed as failed,
    is_local as is_local,
    is_loopback as is_loopback,
    one_line as one_line,
    open_async_channel as open_async_channel,
    open_channel as open_channel,
    result_of as result_of,
    tls_for as tls_for,
    together as together,
)
from geoveil.campaign.consent import (
    away as away,
    deletion_text as deletion_text,
    least_counted,
    likelihood as likelihood,
    of_any_two,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
    who_asks as who_asks,
    who_learns as who_learns,
)
from geoveil.campaign.consent_forms import (
    field_text as field_text,
    price_text as price_text,
    privacy_text as privacy_text,
    what_a_form_tells,
)
from geoveil.campaign.durations import parse_period as parse_period
from geoveil.campaign.entry_points import (
    NotInstalled,
    added as added,
    foreign as foreign,
    load as load,
)
from geoveil.campaign.families import (
    FAMILY_NAME as FAMILY_NAME,
    Example,
    Family as Family,
    MechanismFamily,
    MechanismSpec,
    Planned,
    QueryFamily,
    Registry,
    Work,
)
from geoveil.campaign.fields import (
    OPTION as OPTION,
    STEP as STEP,
    CategoryField,
    ChoiceField,
    Condition,
    Field,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
)
from geoveil.campaign.form import Answers, FormCampaign, check_fields as check_fields
from geoveil.campaign.meaning import unbiased_for
from geoveil.campaign.mechanisms import (
    MECHANISMS,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
)
from geoveil.campaign.model import (
    MOST_SLOTS as MOST_SLOTS,
    Campaign,
    Charge,
    State,
    check_campaign_id as check_campaign_id,
)
from geoveil.campaign.queries import (
    QUERIES,
    Difference as Difference,
    PointQuestion,
    Question,
    decode_point_question,
    encode_point_question,
)
from geoveil.campaign.readings import (
    LONGEST as LONGEST,
    MOST_COHORTS as MOST_COHORTS,
    ORIGIN as ORIGIN,
    Readings,
    moved_on as moved_on,
)
from geoveil.campaign.saying import (
    FARTHEST as FARTHEST,
    between as between,
    both as both,
    days_in as days_in,
    factor_up as factor_up,
    of_far_values as of_far_values,
    percent as percent,
    ratio as ratio,
    right_at_most as right_at_most,
    rounded_up as rounded_up,
    to_one as to_one,
)
from geoveil.campaign.signing import PublicKey, SignatureInvalid, SigningKey, seal, signer
from geoveil.campaign.smooth import SmoothSpec
from geoveil.campaign.statistic import Allocation, StatisticCampaign
from geoveil.campaign.text import visible as visible
from geoveil.campaign.tokens import (
    TOKEN_KEY_BYTES as TOKEN_KEY_BYTES,
    TokenRule as TokenRule,
    token_key_id as token_key_id,
)
from geoveil.campaign.translation import (
    Asker as Asker,
    Translation as Translation,
    Wording,
)
from geoveil.campaign.value import AXES as AXES, ValueCampaign
from geoveil.campaign.words import (
    digits as digits,
    say as say,
    speaking as speaking,
    written as written,
)
from geoveil.gp import __version__ as __version__

__all__ = [
    "MECHANISMS",
    "QUERIES",
    "Allocation",
    "Answers",
    "Attribute",
    "AttributeCampaign",
    "Campaign",
    "CategoryField",
    "Charge",
    "ChoiceField",
    "Condition",
    "DebiasedLaplaceSpec",
    "Example",
    "Field",
    "FormCampaign",
    "LipschitzLaplaceSpec",
    "MechanismFamily",
    "MechanismSpec",
    "MultipleField",
    "NotInstalled",
    "NumberField",
    "OrdinalField",
    "PlaceField",
    "PlanarLaplaceSpec",
    "Planned",
    "PointField",
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
    "Value",
    "ValueCampaign",
    "Wording",
    "Work",
    "decode",
    "decode_point_question",
    "digest",
    "encode",
    "encode_point_question",
    "least_counted",
    "make_campaign",
    "of_any_two",
    "open_envelope",
    "seal",
    "signer",
    "unbiased_for",
    "what_a_form_tells",
    "what_it_tells",
    "what_it_tells_of",
    "what_to_ask",
]
