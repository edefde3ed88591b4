/** What a person's answers have cost, and whether another may be added. Rates add up exactly. */
import { GeoveilError } from "./errors.js";
import { Rational, ZERO } from "./exact/rational.js";
import { exactRate, type Privacy } from "./gp/mechanism.js";
import type { GeoPrivacy, Limit } from "./policy.js";

/** An answer that counts against the limits of an attribute. */
export interface Spending {
  /** The campaign against whose limit it counts; undefined: only the limits over all campaigns, as for a reading. */
  readonly campaignId?: string | undefined;
  /** Whether a reading paid for it: then it counts against its campaign's limit alone. */
  readonly paid?: boolean | undefined;
  readonly privacy: Privacy;
  /**
   * When the last report that reveals it was settled, in microseconds since 1970; undefined: one waits,
   * and may leave at any time.
   */
  readonly toldUs: bigint | undefined;
  /** The reading from which it is made; undefined: it has its own noise. */
  readonly reading?: string | undefined;
}

/**
 * A reading that an answer is made from. It counts once against a campaign's limit, and once in every
 * window in which a report reveals it.
 */
export interface Kept {
  readonly privacy: Privacy;
  readonly reading: string;
  /** Whether it has already answered the campaign. */
  readonly used: boolean;
}

/** One of the limits of an attribute, and how much of it is spent. */
export interface Budget {
  readonly attribute: string;
  /** "lifetime", or "any ... days" for a window. */
  readonly scope: string;
  readonly limit: GeoPrivacy;
  /** ε over the same distance as the limit. */
  readonly spent: number;
  /** The sum of the slacks δ. */
  readonly spentDelta: number;
}

/** The answer would cost more than the limits leave. Nothing was drawn. */
export class BudgetExceeded extends GeoveilError {
  constructor(
    campaignId: string,
    readonly scope: string,
    /** ε over the same distance as the limit, spent so far. */
    readonly spent: number,
    /** When there is room again, in microseconds since 1970; undefined: never. */
    readonly freesUs: bigint | undefined,
    /** The sum of the slacks δ, spent so far. */
    readonly spentDelta = 0,
  ) {
    const room =
      freesUs === undefined
        ? "there will never be room"
        : `there is room from ${new Date(Number(freesUs / 1000n)).toISOString()}`;
    super("budget-exceeded", `campaign ${campaignId} asks for more than ${scope} leaves: ε = ${spent}${spentDelta ? ` and δ = ${spentDelta}` : ""} is spent; ${room}`);
    this.name = "BudgetExceeded";
  }
}

interface Scope {
  name: string;
  limit: GeoPrivacy;
  campaignId?: string;
  lengthUs?: bigint;
}

function scopes(limit: Limit, campaignId?: string): Scope[] {
  const found: Scope[] = [];
  if (campaignId !== undefined) found.push({ name: "this campaign", limit: limit.campaign, campaignId });
  const { windows = [], lifetime = windows.length ? undefined : limit.campaign } = limit;
  if (lifetime && lifetime !== "unbounded") found.push({ name: "lifetime", limit: lifetime });
  for (const { limit: most, lengthMs } of windows) {
    found.push({ name: `any ${lengthMs / 86_400_000} days`, limit: most, lengthUs: BigInt(Math.round(lengthMs * 1000)) });
  }
  return found;
}

function counted(history: readonly Spending[], scope: Scope, nowUs: bigint): Spending[] {
  return history.filter(
    ({ campaignId, paid, toldUs }) =>
      (scope.campaignId === undefined ? !paid : campaignId === scope.campaignId) &&
      (scope.lengthUs === undefined || toldUs === undefined || toldUs > nowUs - scope.lengthUs),
  );
}

/** What answers cost together: exact fractions. */
class Spent {
  constructor(
    readonly rate: Rational,
    readonly slack: Rational,
  ) {}
  static on({ epsilon, per, delta = 0 }: Privacy): Spent {
    return new Spent(exactRate({ epsilon, per }), Rational.from(delta));
  }
  add(other: Spent): Spent {
    return new Spent(this.rate.add(other.rate), this.slack.add(other.slack));
  }
  sub(other: Spent): Spent {
    return new Spent(this.rate.sub(other.rate), this.slack.sub(other.slack));
  }
  within(limit: GeoPrivacy): boolean {
    return this.rate.compare(exactRate(limit)) <= 0 && this.slack.compare(Rational.from(limit.delta ?? 0)) <= 0;
  }
  over(limit: GeoPrivacy): number {
    return this.rate.mul(Rational.from(limit.per)).toNumber();
  }
}

function total(spendings: readonly Pick<Spending, "privacy">[]): Spent {
  return spendings.reduce((sum, { privacy }) => sum.add(Spent.on(privacy)), new Spent(ZERO, ZERO));
}

/**
 * Refuse an answer that would exceed a limit; if it exceeds several, name the one that holds longest.
 *
 * @param asked - the cost of the answer; undefined: already paid.
 * @param kept - the readings from which it is made.
 */
export function checkLedger(
  asked: Privacy | undefined,
  limit: Limit,
  history: readonly Spending[],
  campaignId: string,
  nowUs: bigint,
  kept: readonly Kept[] = [],
): void {
  const refusals: BudgetExceeded[] = [];
  for (const scope of scopes(limit, campaignId)) {
    const mine = counted(history, scope, nowUs);
    const anew = kept.filter(({ reading, used }) =>
      scope.lengthUs === undefined ? scope.campaignId !== undefined && !used : !mine.some((one) => one.reading === reading),
    );
    const prices = [...(asked ? [asked] : []), ...anew.map(({ privacy }) => privacy)];
    if (!prices.length) continue;
    const spent = total(mine);
    let needed = spent.add(total(prices.map((privacy) => ({ privacy }))));
    if (needed.within(scope.limit)) continue;
    let frees: bigint | undefined;
    if (scope.lengthUs !== undefined) {
      // Waiting reports leave now at the earliest; readings that the answer reveals again do not leave the window.
      const leaving = mine.filter(({ reading }) => !kept.some((one) => one.reading === reading));
      const dated = leaving.map(({ privacy, toldUs = nowUs }) => ({ privacy, toldUs }));
      for (const { privacy, toldUs } of dated.sort((a, b) => (a.toldUs < b.toldUs ? -1 : 1))) {
        needed = needed.sub(Spent.on(privacy));
        if (!needed.within(scope.limit)) continue;
        frees = toldUs + scope.lengthUs;
        break;
      }
    }
    refusals.push(new BudgetExceeded(campaignId, scope.name, spent.over(scope.limit), frees, spent.slack.toNumber()));
  }
  const longest = refusals.reduce<BudgetExceeded | undefined>((a, b) => {
    if (!a) return b;
    if (a.freesUs === undefined) return a;
    return b.freesUs === undefined || b.freesUs > a.freesUs ? b : a;
  }, undefined);
  if (longest) throw longest;
}

/** The limits over all campaigns, each with the part that is spent. */
export function budgetsOf(attribute: string, limit: Limit, history: readonly Spending[], nowUs: bigint): Budget[] {
  return scopes(limit).map((scope) => {
    const spent = total(counted(history, scope, nowUs));
    const { name, limit: most } = scope;
    return { attribute, scope: name, limit: most, spent: spent.over(most), spentDelta: spent.slack.toNumber() };
  });
}
