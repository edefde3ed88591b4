/**
 * Who asks, how long single answers are kept, and who learns that somebody takes part, as sentences for
 * the person. Python's
 * `geoveil.campaign.who_asks` and `who_learns` say the same, which proto/vectors/relay.json holds both to.
 */
import { type Texted, textsOf } from "./texts.js";
import { say } from "./words.js";

export interface Asked {
  readonly relayOperator?: unknown;
  readonly tokenKey?: unknown;
  readonly periodUs?: bigint | undefined;
}

/** The sentences; none: only the server learns anything. */
export function whoLearns({ relayOperator, tokenKey, periodUs }: Asked): string[] {
  const said: string[] = relayOperator ? [say("relay.hides"), say("relay.both")] : [];
  if (tokenKey) said.push(say(periodUs === undefined ? "issuer.once" : "issuer.period"), say("issuer.both"));
  return said;
}

/** What a campaign says about itself, and about the server that stores its reports. */
export interface Said extends Texted {
  readonly deleteAfter?: Date | undefined;
}

/** Who asks, for what, where complaints go, and how long single answers are kept. */
export function whoAsks(campaign: Said): string[] {
  const { asker } = textsOf(campaign);
  const kept = whatIsKept(campaign);
  if (!asker) return [say("tell.unknown"), ...kept];
  const names = ["organisation", "purpose", "contact", "notice"] as const;
  return [...names.flatMap((name) => (asker[name] ? [say(`tell.${name}`, { text: asker[name] })] : [])), ...kept];
}

/** How long single answers are kept, and whether they can be withdrawn. */
export function whatIsKept({ deleteAfter }: Said): string[] {
  const date = deleteAfter?.toISOString().slice(0, 16).replace("T", " ");
  return [date ? say("tell.deletion", { date: `${date} UTC` }) : say("tell.keeping"), say("tell.withdrawal")];
}
