/**
 * Who asks, how long single answers are kept, and who learns of whoever takes part, as sentences for the person. The words
 * are those of Python (`geoveil.campaign.who_asks` and `who_learns`), which proto/vectors/relay.json holds both to. It
 * imports nothing.
 */
export interface Asked {
  readonly relayOperator?: unknown;
  readonly tokenKey?: unknown;
  readonly periodUs?: bigint | undefined;
}

/** The sentences; none: the server alone learns. */
export function whoLearns({ relayOperator, tokenKey, periodUs }: Asked): string[] {
  const said: string[] = [];
  if (relayOperator) {
    said.push(
      "Reports leave through a relay: it learns that your address takes part in something, and when, but neither in which survey nor what a report says.",
      "The server learns what a report says, and not your address; both together could match them.",
    );
  }
  if (tokenKey) {
    said.push(
      `An issuer lets each person send one report${periodUs === undefined ? "" : " in each period"}: it learns who you are, your address, that you take part in this survey, and when, but neither which report is yours nor what it says.`,
      "The server learns that the issuer knows whoever sent a report, and not who that is; both together could compare times.",
    );
  }
  return said;
}

/** What a campaign says of itself, and of the server that keeps its reports. */
export interface Said {
  readonly asker?: { readonly organisation: string; readonly purpose: string; readonly contact: string; readonly notice: string } | undefined;
  readonly deleteAfter?: Date | undefined;
}

/** Who asks, what for and where complaints go, and how long single answers are kept. */
export function whoAsks({ asker, ...kept }: Said): string[] {
  if (!asker) return ["Who asks is unknown: the survey does not say.", ...whatIsKept(kept)];
  const { organisation, purpose, contact, notice } = asker;
  const said = [`Who asks: ${organisation}`, `Purpose: ${purpose}`, `Contact: ${contact}`];
  return [...said, ...(notice ? [`Notice: ${notice}`] : []), ...whatIsKept(kept)];
}

/** How long single answers are kept, and whether they can be withdrawn. */
export function whatIsKept({ deleteAfter }: Said): string[] {
  const date = deleteAfter?.toISOString().slice(0, 16).replace("T", " ");
  return [
    date ? `The server deletes single answers after ${date} UTC, and keeps their sums.` : "How long the server keeps single answers is unknown: the survey does not say.",
    "Nobody can withdraw an answer after it is sent: reports carry no names.",
  ];
}
