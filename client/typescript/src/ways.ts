/**
 * Who learns of whoever takes part, beside what a report tells, as sentences for the person. The words are those of Python
 * (`geoveil.campaign.who_learns`), which proto/vectors/relay.json holds both to. It imports nothing: a page loads it for
 * campaigns that ask for a relay or for tokens.
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
