/** What a person's answers have cost, and whether another may be added. Rates add up exactly. */
import { GeoveilError } from "./errors.js";
import { Rational, ZERO } from "./exact/rational.js";
import { exactRate, type Privacy } from "./gp/mechanism.js";
import type { GeoPrivacy, Limit } from "./policy.js";

/** An answer that counts against the limits of an attribute. */
export interface Spending {
  /** The campaign whose limit it counts against; undefined: none, but all over campaigns, as a reading. */
  readonly campaignId?: string | undefined;
  /** Whether a reading paid for it: it counts against the limit of its campaign alone. */
  readonly paid?: boolean | undefined;
  readonly privacy: Privacy;
  /** When it was drawn, in microseconds since 1970. */
  readonly drawnUs: bigint;
}

/** One of the limits of an attribute, and how much of it is spent. */
export interface Budget {
  readonly attribute: string;
  /** "lifetime", or "any ... days" for a window. */
  readonly scope: string;
  readonly limit: GeoPrivacy;
  /** ε over the same distance as the limit. */
  readonly spent: number;
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
  ) {
    const room =
      freesUs === undefined
        ? "there will never be room"
        : `there is room from ${new Date(Number(freesUs / 1000n)).toISOString()}`;
    super("budget-exceeded", `campaign ${campaignId} asks for more than ${scope} leaves: ε = ${spent} is spent; ${room}`);
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
  if (limit.lifetime) found.push({ name: "lifetime", limit: limit.lifetime });
  for (const { limit: most, lengthMs } of limit.windows ?? []) {
    found.push({ name: `any ${lengthMs / 86_400_000} days`, limit: most, lengthUs: BigInt(Math.round(lengthMs * 1000)) });
  }
  return found;
}

function counted(history: readonly Spending[], scope: Scope, nowUs: bigint): Spending[] {
  return history.filter(
    ({ campaignId, paid, drawnUs }) =>
      (scope.campaignId === undefined ? !paid : campaignId === scope.campaignId) &&
      (scope.lengthUs === undefined || drawnUs > nowUs - scope.lengthUs),
  );
}

function total(spendings: readonly Pick<Spending, "privacy">[]): Rational {
  return spendings.reduce((sum, { privacy }) => sum.add(exactRate(privacy)), ZERO);
}

function over(rate: Rational, limit: GeoPrivacy): number {
  return rate.mul(Rational.from(limit.per)).toNumber();
}

/**
 * Refuse an answer that would exceed a limit; of several, by the one that holds longest.
 *
 * @param asked - what the answer costs; undefined: nothing that others have not paid for.
 * @param paid - of the readings that it is made from, those that others have paid for: they count
 *   against the limit of this campaign alone.
 */
export function checkLedger(
  asked: Privacy | undefined,
  limit: Limit,
  history: readonly Spending[],
  campaignId: string,
  nowUs: bigint,
  paid: readonly Privacy[] = [],
): void {
  const refusals: BudgetExceeded[] = [];
  for (const scope of scopes(limit, campaignId)) {
    const prices = [...(asked ? [asked] : []), ...(scope.campaignId === undefined ? [] : paid)];
    if (!prices.length) continue;
    const rate = total(prices.map((privacy) => ({ privacy })));
    const mine = counted(history, scope, nowUs);
    const most = exactRate(scope.limit);
    let spent = total(mine);
    if (spent.add(rate).compare(most) <= 0) continue;
    const told = over(spent, scope.limit);
    let frees: bigint | undefined;
    if (scope.lengthUs !== undefined && rate.compare(most) <= 0) {
      for (const { privacy, drawnUs } of [...mine].sort((a, b) => (a.drawnUs < b.drawnUs ? -1 : 1))) {
        spent = spent.sub(exactRate(privacy));
        if (spent.add(rate).compare(most) <= 0) {
          frees = drawnUs + scope.lengthUs;
          break;
        }
      }
    }
    refusals.push(new BudgetExceeded(campaignId, scope.name, told, frees));
  }
  const longest = refusals.reduce<BudgetExceeded | undefined>((a, b) => {
    if (!a) return b;
    if (a.freesUs === undefined) return a;
    return b.freesUs === undefined || b.freesUs > a.freesUs ? b : a;
  }, undefined);
  if (longest) throw longest;
}

/** The limits over all campaigns, each with what is spent of it. */
export function budgetsOf(attribute: string, limit: Limit, history: readonly Spending[], nowUs: bigint): Budget[] {
  return scopes(limit).map((scope) => ({
    attribute,
    scope: scope.name,
    limit: scope.limit,
    spent: over(total(counted(history, scope, nowUs)), scope.limit),
  }));
}
