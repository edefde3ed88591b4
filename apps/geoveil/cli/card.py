"""geoveil card: state a campaign's promise in the fields that offices and registries require."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import NOT_STATED, card_of
from geoveil.campaign import digits
from geoveil.cli.campaign import envelope_in
from geoveil.cli.connection import TIMEOUT_S, Connection, connects, device_at
from geoveil.cli.console import out, write_new
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")


Format = StrEnum("Format", ["markdown", "html", "json"])
"""The format of a card."""


@connects
def card(
    campaign: Annotated[
        str,
        typer.Argument(
            help="The id of a campaign, or a file from 'geoveil campaign sign' or the console."
        ),
    ],
    form: Annotated[
        Format, typer.Option("--format", help="Markdown or HTML for people, JSON for programs.")
    ] = Format.markdown,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="File to write instead of printing. It must not exist."),
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Write the privacy card of a campaign: its promises, from its signed bytes alone.

    The fields are those of NIST SP 800-226, of the W3C's note for reviewers and of the OpenDP
    registry of deployments, with a draft of a data-protection impact assessment. Facts that
    a campaign does not state are 'not stated', for you to fill in.

    Example: geoveil card income.signed.campaign --format html --out card.html
    """
    if Path(campaign).suffix:  # an id has no ending
        envelope = envelope_in(Path(campaign))
    else:
        with device_at(connection) as device:
            envelope = device.get_campaign(
                GetCampaignRequest(campaign_id=campaign), TIMEOUT_S
            ).envelope
    record = card_of(envelope)
    text = (
        json.dumps(record, indent=2, allow_nan=False) + "\n"
        if form is Format.json
        else _page(record, form)
    )
    if out_file is None:
        typer.echo(text, nl=False)
        return
    write_new(out_file, text.encode())
    out.tell(f"{out_file}: {text.count(NOT_STATED)} times '{NOT_STATED}', for you to complete")


def _rows(part: Any, name: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the fields of a section with their texts; fields of tables have longer names."""
    if isinstance(part, dict):
        for below, value in part.items():
            yield from _rows(value, f"{name}, {below}" if name else below)
    elif isinstance(part, list) and any(isinstance(item, dict) for item in part):
        yield name, ["; ".join(f"{k}: {_text(v)}" for k, v in item.items()) for item in part]
    else:
        yield name, [_text(item) for item in (part if isinstance(part, list) else [part])]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else digits(value)


def _page(record: Mapping[str, Any], form: Format) -> str:
    """Return a card as Markdown or a self-contained page, with the campaign's texts escaped."""
    head, section, entry, joint, end, tail = _LAYOUTS[form]
    escaped = html.escape if form is Format.html else partial(_MARKS.sub, r"\\\1")
    page = head.format(title=escaped(f"Privacy card: {record['Campaign']['title']}"))
    for name, part in record.items():
        page += section.format(name)
        for field, texts in _rows(part, "" if isinstance(part, dict) else name):
            page += entry.format(field, joint.join(map(escaped, texts)))
        page += end
    return page + tail


_LAYOUTS = {
    Format.markdown: ("# {title}\n", "\n## {}\n\n", "* **{}**: {}\n", " ", "", ""),
    Format.html: (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>{title}</title><style>'
        "body{{font:1rem/1.5 sans-serif;max-width:45rem;margin:auto;padding:1rem}}"
        "dt{{font-weight:bold}}dd{{margin:0 0 .5rem}}</style><h1>{title}</h1>\n",
        "<h2>{}</h2><dl>\n",
        "<dt>{}</dt><dd>{}</dd>\n",
        "<br>",
        "</dl>\n",
        "</html>\n",
    ),
}
"""Format → its head, start of a section, entry, mark between texts, end of a section, and tail."""
