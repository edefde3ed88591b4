/** The client: it fetches and checks campaigns, and draws, stores and sends one report for each. */
import { Backoff, pauseMs } from "./backoff.js";
import { Campaign, digest, type Drawn, loadFor, messageOf } from "./campaign.js";
import { type Answers, type Charge, type Form, isForm, loadForms, readForm } from "./form.js";
import { type Demand, demandOf } from "./demand.js";
import { hex, openEnvelope, PublicKey, unhex } from "./envelope.js";
import { Epochs, keyOf } from "./epoch.js";
import { GeoveilError, ParameterError } from "./errors.js";
import { type BitSource, systemSource } from "./exact/bits.js";
import { loadGeodesics } from "./gp/plane.js";
import { type Budget, budgetsOf, checkLedger, type Spending } from "./ledger.js";
import { paced } from "./pace.js";
import { completed, type Issuer, requireIssuer } from "./pass.js";
import { checkValue, type Limit, number, Policy, refused } from "./policy.js";
import { outcomeOf, priceOf, type Receipt, receiptOf, reportBytes } from "./report.js";
import { type Charged, type Entry, MemoryStorage, type Pinned, type Storage } from "./storage.js";
import { type Transport, TransportError, transportTo } from "./transport.js";
import { placeOf, pointOf, type Value } from "./values.js";
import { loadMessages } from "./words.js";

/** The outcome of a report if the person's token was given for another one. */
const TAKEN = { status: "rejected", reason: "WRONG_TOKEN" } as const;
const MOST_PENDING = 1000;
const MOST_PENDING_BYTES = 4 << 20;
/** The time limit of one call, after which a flush tries again. */
const TIMEOUT_MS = 10_000;
const DAY_MS = 86_400_000;
const RELEASE_FLOOR_MS = 10;
const KEPT_AFTER_CLOSE_US = 30n * 86_400_000_000n;
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [200, 5_000];
const [FIRST_WAIT_MS, LONGEST_WAIT_MS] = [1_000, 300_000];
/** Microseconds of processor time that a list of campaigns may take. */
const MOST_LISTED_WORK = 1_000_000;

export interface ClientOptions {
  /** The server's https address, or a transport. */
  readonly server: string | Transport;
  /** What the app permits. */
  readonly policy: Policy;
  /** The issuer of this person's token for each campaign that asks for tokens. */
  readonly issuer?: Issuer;
  /** Where campaigns and reports are stored; by default in memory, for as long as the page lives. */
  readonly storage?: Storage;
  /** Whether to send waiting reports in the background, with retries; true by default. */
  readonly background?: boolean;
  /** The least time, in milliseconds, of an operation that reads a value; 0: no floor. */
  readonly releaseFloorMs?: number;
  /** The date, in milliseconds since 1970. */
  readonly now?: () => number;
  /** Random bits; by default the system's. For tests only. */
  readonly source?: BitSource;
}

export interface ContributeOptions {
  /** The digest of the campaign that the person saw: any other is refused. */
  readonly digest?: string | undefined;
}

/** A campaign that a server published, and whether it may be answered. */
export interface Offer {
  readonly campaign: Campaign | Form;
  /** SHA-256 of the campaign's bytes, in hexadecimal. */
  readonly digest: string;
  /** The key of its valid signature; null: unsigned. */
  readonly signer: string | null;
  /**
   * The cost of a report, all its answers together, over true distances; undefined for a form, which has
   * `charges`.
   */
  readonly price: { readonly epsilon: number; readonly per: number; readonly unit: string } | undefined;
  readonly demand: Demand;
  /** Whether it was closed before its date. */
  readonly closed: boolean;
  /** Null if the policy permits it, otherwise the reason why not. */
  readonly acceptable: string | null;
}

export interface Counts {
  readonly pending: number;
  readonly pendingBytes: number;
  readonly acknowledged: number;
  readonly rejected: number;
  readonly expired: number;
}

export interface FlushResult {
  readonly acknowledged: number;
  readonly rejected: number;
  readonly pending: number;
}

interface Accepted {
  campaign: Campaign | Form;
  digest: string;
  signer: PublicKey | undefined;
  demand: Demand;
  /** The server says that it was closed by hand, before its date. */
  readonly closed?: boolean;
}

/** A device of one person. */
export class Client {
  readonly #options: ClientOptions;
  readonly #storage: Storage;
  readonly #transport: Transport;
  readonly #source: BitSource;
  readonly #accepted = new Map<string, Accepted>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, LONGEST_WAIT_MS);
  #closed = false;
  #delivering: Promise<unknown> = Promise.resolve();

  constructor(options: ClientOptions) {
    if (!(options?.policy instanceof Policy)) throw new ParameterError("policy", typeof options?.policy, "a Policy");
    if (!options.server) throw new ParameterError("server", options.server, "like https://collector.example");
    if (options.issuer) requireIssuer(options.issuer);
    this.#options = options;
    this.#storage = options.storage ?? new MemoryStorage();
    this.#transport = typeof options.server === "string" ? transportTo(options.server) : options.server;
    this.#source = options.source ?? systemSource;
    this.#wake(0);
  }

  /** Whether limits outlive this window or process, as far as the storage can tell. */
  get persistent(): boolean {
    return this.#storage.persistent;
  }

  /**
   * The campaigns that are open or will be, and that this device can read; permitted ones first.
   * Campaigns that ask too much of the device are left out unread, as are all from where the total
   * becomes too much.
   */
  async campaigns(): Promise<Offer[]> {
    const offers: Offer[] = [];
    let work = 0;
    for (const { envelope, closed } of await this.#transport.browse(TIMEOUT_MS)) {
      if (closed || work > MOST_LISTED_WORK) continue;
      try {
        const read = await this.#read(undefined, envelope, true);
        work += read.demand.work;
        offers.push(this.#offer(read));
      } catch (error) {
        if (!(error instanceof GeoveilError)) throw error;
      }
    }
    return offers.sort((a, b) => Number(a.acceptable !== null) - Number(b.acceptable !== null));
  }

  /**
   * A campaign as the server publishes it or, with `kept`, this device's copy if there is one: checked,
   * whether permitted or not.
   */
  async offer(id: string, { kept = false } = {}): Promise<Offer> {
    await loadMessages();
    const pinned = kept ? await this.#pinned(id) : undefined;
    return this.#offer(pinned ? await this.#read(id, unhex(pinned.envelope)!, false) : await this.#fetched(id, false));
  }

  /** Fetch, check and store a campaign that the policy permits. */
  async fetch(id: string): Promise<Campaign | Form> {
    return (await this.#accept(id, true)).campaign;
  }

  /**
   * Draw and store the one report to a campaign and period, or return the stored one.
   *
   * It resolves when the report is stored; sending follows, in the background or by `flush`. A second call draws
   * nothing, its value has no effect, and its receipt is not `fresh`. For a form, all answers are drawn, or none.
   *
   * @param value - the private value; for a form, name of a field → answer: a number, a place, an
   *   option, or a list of options.
   */
  async contribute(id: string, value: Value | Answers, { digest: shown }: ContributeOptions = {}): Promise<Receipt> {
    const { campaign, digest: named } = await this.#accept(id, false);
    if (shown !== undefined && shown !== named) throw invalid(id, "it is not the one that was shown");
    const limits = this.#options.policy.check(campaign, this.#accepted.get(id)?.signer);
    const kept = await this.#storage.exclusively(async (journal) => {
      const nowUs = this.#nowUs();
      const period = campaign.periodAt(nowUs);
      const entries = await journal.entries();
      const found = entries.find((entry) => entry.campaignId === id && entry.period === period);
      if (found) return receiptOf(found);
      const state = campaign.stateAt(nowUs);
      if (state !== "open") throw new GeoveilError("campaign-not-open", `campaign ${id} is ${state}`);
      this.#checkRoom(id, entries);
      const epochs = isForm(campaign) ? undefined : Epochs.of(campaign, limits[0]!, entries, nowUs);
      this.#checkLimits(campaign, limits, entries, nowUs, epochs);
      const { drawn, privacy, kept } = await paced(() => {
        if (isForm(campaign)) return { drawn: this.#answered(campaign, limits, value as Answers), privacy: undefined, kept: {} };
        const point = (): number[] => {
          const at = pointOf(campaign, value as Value);
          this.#checkSlip(limits[0]!, campaign, value as Value, at);
          return at;
        };
        if (epochs) return epochs.report(point, this.#source);
        return { drawn: campaign.draw(point(), this.#source), privacy: campaign.reportPrivacy, kept: {} };
      }, this.#options.releaseFloorMs ?? RELEASE_FLOOR_MS);
      const entry: Entry = {
        campaignId: id,
        period,
        digest: named,
        report: reportBytes(drawn, period),
        charges: chargesOf(campaign).map((one) => charged({ ...one, ...(privacy && { privacy }), ...(epochs && { anyTwo: Infinity }) })),
        ...kept,
        ...(isForm(campaign) ? { stepExponent: 0, exponents: campaign.exponents } : { stepExponent: campaign.stepExponent }),
        closesUs: campaign.closesUs.toString(),
        drawnUs: nowUs.toString(),
        ...(campaign.tokenKey && { blinding: hex(crypto.getRandomValues(new Uint8Array(32))) }),
        status: "pending",
      };
      await journal.add(entry);
      return receiptOf(entry, true);
    });
    this.#wake(0);
    return kept;
  }

  /** Send waiting reports until none is left that another try could help, or time, at most a day, is up. */
  async flush({ deadlineMs = TIMEOUT_MS } = {}): Promise<FlushResult> {
    if (!(deadlineMs > 0 && deadlineMs <= DAY_MS)) throw new ParameterError("deadlineMs", deadlineMs, `a number > 0, at most ${DAY_MS}`);
    const end = performance.now() + deadlineMs;
    let [acknowledged, rejected] = [0, 0];
    // Its own backoff: a flush tries now, and more often than the background does.
    const backoff = new Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Infinity);
    for (;;) {
      const done = await this.#deliver(end, backoff);
      acknowledged += done.acknowledged;
      rejected += done.rejected;
      const wait = backoff.waitMs();
      if (!done.pending || wait === undefined || performance.now() + wait >= end) return { ...done, acknowledged, rejected };
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /** The receipts of all reports that ever left this device or wait to, oldest first. */
  async history(): Promise<Receipt[]> {
    return (await this.#storage.exclusively((journal) => journal.entries())).map((entry) => receiptOf(entry));
  }

  /** The limits over all campaigns, and how much of each is spent. */
  async budgets(): Promise<Budget[]> {
    const entries = await this.#storage.exclusively((journal) => journal.entries());
    const { policy } = this.#options;
    const found: Budget[] = [];
    for (const [name, limit] of policy.limits) {
      found.push(...budgetsOf(name, limit, spendings(entries, name, limit.campaign.unit), this.#nowUs()));
    }
    return found;
  }

  /** How many reports there are of each kind. */
  async counts(): Promise<Counts> {
    const entries = await this.#storage.exclusively((journal) => journal.entries());
    const many = (status: string): number => entries.filter((entry) => entry.status === status).length;
    const waiting = entries.filter((entry) => entry.status === "pending");
    return {
      pending: waiting.length,
      pendingBytes: waiting.reduce((sum, { report }) => sum + report.length / 2, 0),
      acknowledged: many("acknowledged"),
      rejected: many("rejected"),
      expired: many("expired"),
    };
  }

  /** Stop sending by itself. Stored reports stay for the next client of the storage. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #nowUs(): bigint {
    return BigInt(Math.floor((this.#options.now ?? Date.now)() * 1000));
  }

  #offer({ campaign, digest, signer, demand, closed = false }: Accepted): Offer {
    let acceptable: string | null = null;
    try {
      this.#options.policy.checkDemand(campaign.id, demand);
      this.#check({ campaign, signer });
    } catch (error) {
      if (!(error instanceof GeoveilError)) throw error;
      acceptable = error.message;
    }
    const price = isForm(campaign) ? undefined : { ...campaign.reportPrivacy, unit: campaign.attribute.unit };
    return { campaign, digest, signer: signer?.toString() ?? null, price, demand, closed, acceptable };
  }

  /** A permitted campaign, from the storage or else from the server. */
  async #accept(id: string, anew: boolean): Promise<Accepted> {
    const known = this.#accepted.get(id);
    if (known && !anew) return known;
    const pinned = await this.#pinned(id);
    let accepted: Accepted;
    if (pinned && !anew) {
      accepted = await this.#read(id, unhex(pinned.envelope)!, true);
    } else {
      accepted = await this.#fetched(id, true);
    }
    this.#check(accepted);
    this.#accepted.set(id, accepted);
    return accepted;
  }

  #check({ campaign, signer }: Pick<Accepted, "campaign" | "signer">): void {
    this.#options.policy.check(campaign, signer);
    this.#checkWay(campaign.id, campaign.relayOperator, campaign.tokenKey !== undefined);
  }

  /** Refuse reports that may not leave through this client's transport. */
  #checkWay(id: string, operator: PublicKey | undefined, token: boolean): void {
    if (token && !this.#options.issuer) throw refused(id, "token", "one from its issuer", "none");
    const own = this.#transport.operator;
    if (!operator || String(operator) === String(own)) return;
    throw refused(id, "relay", `to the gateway of ${operator}`, own ? `to the gateway of ${own}` : "none");
  }

  /**
   * A report as it leaves, with its token if it needs one, even an earlier client's; undefined: the
   * person's token belongs to another report.
   */
  async #complete(entry: Entry, timeoutMs: number): Promise<string | undefined> {
    const pinned = await this.#pinned(entry.campaignId);
    if (!pinned) return entry.report;
    const { campaign } = await openEnvelope(unhex(pinned.envelope)!);
    const { relayOperator: operator, tokenKey } = messageOf(campaign);
    this.#checkWay(entry.campaignId, operator.length ? PublicKey.of(operator) : undefined, tokenKey.length > 0 && !entry.complete);
    return entry.complete ?? (tokenKey.length ? await completed(campaign, entry, this.#options.issuer!, timeoutMs) : entry.report);
  }

  #pinned(id: string): Promise<Pinned | undefined> {
    return this.#storage.exclusively((journal) => journal.campaign(id));
  }

  /** Ask the server, with retries while they can help, and compare with the version seen first. */
  async #fetched(id: string, keep: boolean): Promise<Accepted> {
    const end = performance.now() + TIMEOUT_MS;
    for (let bound = FIRST_PAUSE_MS; ; bound = Math.min(2 * bound, LONGEST_PAUSE_MS)) {
      try {
        const { envelope, closed } = await this.#transport.campaign(id, end - performance.now());
        const accepted = { ...(await this.#read(id, envelope, keep)), closed };
        if (keep) this.#check(accepted);
        if (closed && keep) throw new GeoveilError("campaign-not-open", `campaign ${id} is closed`);
        await this.#compared(accepted, envelope, keep);
        return accepted;
      } catch (error) {
        if (!(error instanceof TransportError)) throw error;
        if (error.status === "not_found") throw new GeoveilError("campaign-not-found", `the server has no campaign ${id}`);
        const wait = pauseMs(error, bound);
        if (!error.retryable || performance.now() + wait >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async #compared({ campaign, digest: named }: Accepted, envelope: Uint8Array, keep: boolean): Promise<void> {
    await this.#storage.exclusively(async (journal) => {
      const pinned = await journal.campaign(campaign.id);
      if (pinned && pinned.digest !== named) {
        throw new GeoveilError("campaign-invalid", `campaign ${campaign.id} is not the one that this device saw first`);
      }
      if (!pinned && keep) await journal.pin({ campaignId: campaign.id, digest: named, envelope: hex(envelope) });
    });
  }

  /** Read an envelope; with `permitted`, refuse a campaign that asks too much before interpreting it. */
  async #read(id: string | undefined, envelope: Uint8Array, permitted: boolean): Promise<Accepted> {
    try {
      const { campaign: bytes, signer } = await openEnvelope(envelope);
      const demand = demandOf(bytes);
      if (permitted) this.#options.policy.checkDemand(id ?? "", demand);
      const form = messageOf(bytes).fields.length > 0;
      await (form ? loadForms() : loadFor(bytes));
      const campaign = form ? readForm(bytes) : new Campaign(bytes);
      const attributes = isForm(campaign) ? campaign.fields.map((field) => field.attribute) : [campaign.attribute];
      if (attributes.some(({ coordinates }) => coordinates)) await loadGeodesics();
      if (id !== undefined && campaign.id !== id) throw invalid(id, "the server sent another");
      return { campaign, digest: hex(await digest(bytes)), signer, demand };
    } catch (error) {
      if (error instanceof GeoveilError) throw error.code === "parameter" ? invalid(id ?? "", error.message) : error;
      // Numbers too extreme for a formula.
      throw invalid(id ?? "", "it can't be read");
    }
  }

  #checkRoom(id: string, entries: readonly Entry[]): void {
    const waiting = entries.filter((entry) => entry.status === "pending");
    const bytes = waiting.reduce((sum, { report }) => sum + report.length / 2, 0);
    if (waiting.length >= MOST_PENDING || bytes >= MOST_PENDING_BYTES) {
      throw new GeoveilError("outbox-full", `campaign ${id} can't be answered now: ${waiting.length} reports wait to be sent`);
    }
  }

  #checkLimits(campaign: Campaign | Form, limits: readonly Limit[], entries: readonly Entry[], nowUs: bigint, epochs?: Epochs): void {
    const { id } = campaign;
    chargesOf(campaign).forEach(({ attribute, unit, privacy }, i) => {
      checkLedger(epochs ? epochs.asked : privacy, limits[i]!, spendings(entries, attribute, unit), id, nowUs, epochs?.kept);
    });
  }

  #checkSlip(limit: Limit, asked: Pick<Campaign, "attribute" | "dimension">, value: Value, at: readonly number[]): void {
    const held = asked.attribute.scale ? ([value].flat() as number[])[0]! : at[0]!;
    checkValue(limit.value ?? number, asked.attribute, held, placeOf(asked, value));
  }

  /** Draw the report of a form, unless an answer is a slip by the policy. */
  #answered(form: Form, limits: readonly Limit[], answers: Answers): Drawn {
    const prepared = form.prepare(answers);
    for (const field of form.applying(answers)) {
      const at = prepared[form.fields.indexOf(field)]!;
      const limit = limits[form.charges.findIndex((one) => one.attribute === field.name)];
      if (limit && typeof at !== "bigint") this.#checkSlip(limit, { attribute: field.attribute, dimension: at.length }, answers[field.name] as Value, at);
    }
    return form.draw(prepared, this.#source);
  }

  /** One round over the reports that are due, one report per request. */
  async #deliver(end: number, backoff: Backoff): Promise<FlushResult> {
    const round = this.#delivering.then(() => this.#round(end, backoff));
    this.#delivering = round.catch(() => undefined);
    return await round;
  }

  async #round(end: number, backoff: Backoff): Promise<FlushResult> {
    const waiting = await this.#storage.exclusively(async (journal) => {
      const found = (await journal.entries()).filter((entry) => entry.status === "pending");
      const nowUs = this.#nowUs();
      const kept: Entry[] = [];
      for (const entry of found) {
        const late = nowUs - BigInt(entry.closesUs) > KEPT_AFTER_CLOSE_US;
        if (late) await journal.settle({ ...entry, status: "expired", settledUs: nowUs.toString() });
        else kept.push(entry);
      }
      return kept;
    });
    const told = new Set([backoff, this.#backoff]);
    backoff.retain(new Set(waiting.map((entry) => entry.campaignId)));
    let [acknowledged, rejected, settled] = [0, 0, 0];
    for (const entry of waiting) {
      const { campaignId } = entry;
      if (!backoff.ready(campaignId)) continue;
      const left = (): number => Math.min(end - performance.now(), TIMEOUT_MS);
      if (left() <= 0) break;
      let marked: Entry = entry;
      try {
        const report = await this.#complete(entry, left());
        if (report) marked = { ...entry, ...(report !== entry.report && { complete: report }), sentUs: entry.sentUs ?? this.#nowUs().toString() };
        // Another client may have sent it since, long before: a window would not count it now.
        if (!(await this.#settle(marked, !entry.sentUs && report !== undefined))) {
          settled += 1;
          continue;
        }
        const outcome = report ? outcomeOf(await this.#transport.submit(campaignId, unhex(entry.digest)!, unhex(report)!, left())) : TAKEN;
        if (!outcome) throw new TransportError("unknown");
        for (const one of told) one.succeeded(campaignId);
        await this.#settle({ ...marked, ...outcome, failure: undefined });
        if (outcome.status === "acknowledged") acknowledged += 1;
        else rejected += 1;
      } catch (error) {
        const failure = error instanceof GeoveilError && error.code === "policy-refused" ? new TransportError(error.code) : error;
        if (!(failure instanceof TransportError)) throw error;
        for (const one of told) one.failed(campaignId, failure);
        await this.#settle({ ...marked, failure: failure.status });
      }
    }
    return { acknowledged, rejected, pending: waiting.length - acknowledged - rejected - settled };
  }

  /** Record a report's departure or outcome, settled now, unless another tab has settled it; return whether it waited. */
  async #settle(entry: Entry, changed = true): Promise<boolean> {
    return await this.#storage.exclusively(async (journal) => {
      const now = (await journal.entries()).find((e) => e.campaignId === entry.campaignId && e.period === entry.period);
      const settled = entry.status !== "pending" && { settledUs: this.#nowUs().toString() };
      if (now?.status !== "pending") return false;
      if (changed) await journal.settle({ ...entry, ...settled });
      return true;
    });
  }

  #wake(delayMs: number): void {
    if (this.#closed || this.#options.background === false) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#work(), delayMs);
    // In Node, a timer would keep the process alive.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async #work(): Promise<void> {
    try {
      // While the server must wait, don't even look for waiting reports.
      const { pending } = this.#backoff.ready()
        ? await this.#deliver(performance.now() + TIMEOUT_MS, this.#backoff)
        : { pending: 1 };
      if (pending) this.#wake(this.#backoff.waitMs() ?? 0);
    } catch {
      // The storage failed: retry later, silently, because nothing was sent.
      this.#wake(LONGEST_WAIT_MS);
    }
  }
}

function invalid(id: string, reason: string): GeoveilError {
  return new GeoveilError("campaign-invalid", `campaign ${id} is not sound: ${reason}`);
}

/** What a report costs each of its attributes. */
function chargesOf(campaign: Campaign | Form): readonly Charge[] {
  if (isForm(campaign)) return campaign.charges;
  const { attribute, reportPrivacy, largestEpsilon } = campaign;
  return [{ attribute: attribute.name, unit: attribute.unit, privacy: reportPrivacy, anyTwo: largestEpsilon }];
}

function charged({ attribute, unit, privacy, anyTwo }: Charge): Charged {
  return { attribute, unit, ...privacy, ...(anyTwo < Infinity && { anyTwo }) };
}

/** Reports with noise of their own count everywhere, readings over all campaigns, and points for their campaign. */
function spendings(entries: readonly Entry[], attribute: string, unit: string): Spending[] {
  const priced = (entry: Entry): Charged | undefined => entry.charges.find((one) => one.attribute === attribute && one.unit === unit);
  const mine = entries.filter(priced);
  const last = new Map<string, bigint | undefined>();
  for (const { campaignId, points = [] } of mine) {
    for (const { space, beginsUs } of points) {
      const made = mine.filter((one) => one.campaignId === campaignId && [one.epochUs, one.beforeUs].includes(beginsUs));
      const key = keyOf(space, beginsUs);
      const told = [...made.map(toldOf), ...(last.has(key) ? [last.get(key)] : [])];
      last.set(key, told.reduce((a, b) => (a === undefined || b === undefined ? undefined : a > b ? a : b)));
    }
  }
  return mine.flatMap((entry) => {
    const { campaignId, epochUs, reading, points = [] } = entry;
    if (epochUs === undefined) return [{ privacy: priceOf(priced(entry)!), toldUs: toldOf(entry), campaignId }];
    const own = points.map((point): Spending => ({ toldUs: undefined, campaignId, paid: true, privacy: { epsilon: point.epsilon, per: point.per } }));
    if (!reading) return own;
    const key = keyOf(reading.space, reading.beginsUs);
    return [{ privacy: priceOf(priced(entry)!), toldUs: last.get(key), reading: key }, ...own];
  });
}

/** When a report last told the server anything; undefined: it waits, and may leave at any time. */
function toldOf({ status, settledUs, drawnUs }: Entry): bigint | undefined {
  return status === "pending" ? undefined : BigInt(settledUs ?? drawnUs);
}

