/** A survey on a device, from first look to receipt: the state that elements and hooks show. */
import {
  Client,
  type Epoch,
  GeoveilError,
  IndexedDbStorage,
  type Answers,
  isForm,
  type Issuer,
  type Limit,
  type Offer,
  Policy,
  type PolicyOptions,
  PublicKey,
  type Receipt,
  type Storage,
  type Transport,
  TransportError,
  type Value,
} from "./index.js";

/** ε that all surveys of a site may have spent on an attribute after one of them, over the distance that this one states. */
export const LIFETIME = 5;
const FLUSH_MS = 15_000;
const PAUSE_MS = 10_000;

export interface SurveyOptions {
  /** The id of the campaign. */
  readonly campaign: string;
  /** The server's https address, or a transport. */
  readonly server: string | Transport;
  /**
   * The analyst's public key: only campaigns that it signed are answered. Undefined: anybody's
   * campaigns, signed or not.
   */
  readonly key?: string | undefined;
  /**
   * The ε that all surveys of this site together may have spent on an attribute after this one, at
   * the distance that it states: 5 by default, and never less than its own cost. Ignored if `policy`
   * is given.
   */
  readonly lifetime?: number | undefined;
  /** What the app permits; by default what is shown, up to `lifetime`. */
  readonly policy?: Policy | PolicyOptions | undefined;
  /** Where this person gets the one token of a campaign that asks for tokens. */
  readonly issuer?: Issuer | undefined;
  /** Where reports are stored; by default the database of this site. */
  readonly storage?: Storage | undefined;
}

/** How a survey stands. */
export interface SurveyState {
  /** "sending": the report is stored, and is sent as soon as possible. "sent": the server has counted it. */
  readonly status: "loading" | "ready" | "sending" | "sent" | "error";
  /** What is asked, and by whom. */
  readonly offer?: Offer;
  /** The epoch of the app's policy whose readings answer it: tell people `describeEpoch(epoch)`. */
  readonly epoch?: Epoch | undefined;
  /** What was sent, or waits. */
  readonly receipt?: Receipt;
  /** For "ready": why the last answer was not accepted. */
  readonly error?: GeoveilError;
  /** Whether the browser promises to keep the storage. */
  readonly persistent?: boolean;
}

/**
 * A policy that permits the same, with a limit on what all surveys learn about each attribute: at least
 * what this one takes.
 */
export function withLifetime({ options }: Policy, most = LIFETIME): Policy {
  const limits = Object.entries(options.limits).map(([name, limit]): [string, Limit] => {
    const { epsilon, delta = 0 } = limit.campaign;
    const times = Math.max(1, most / epsilon);
    const lifetime = { ...limit.campaign, epsilon: Math.max(most, epsilon), ...(delta && { delta: Math.min(0.5, times * delta) }) };
    return [name, { ...limit, lifetime }];
  });
  return new Policy({ ...options, limits: Object.fromEntries(limits) });
}

/** One survey for one person. */
export class Survey {
  #state: SurveyState = { status: "loading" };
  #client: Client | undefined;
  #opened = 0;
  readonly #listeners = new Set<() => void>();

  constructor(readonly options: SurveyOptions) {}

  /** The state; the same object until it changes. */
  get state(): SurveyState {
    return this.#state;
  }

  /** Call a function whenever the state has changed, until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Fetch the campaign and send waiting reports, until the returned function is called. */
  open(): () => void {
    const opened = (this.#opened += 1);
    this.#set(opened, { status: "loading" });
    this.#load(opened).catch((error: unknown) => this.#set(opened, { ...this.#state, status: "error", error: typed(error) }));
    return () => {
      if (this.#opened === opened) this.#opened += 1;
      this.#client?.close();
    };
  }

  /**
   * Draw the report for an answer, store it and send it; resolves when it is stored.
   *
   * @param answer - the private value; for a form, name of a field → answer. It has no effect if there
   *   is a stored report.
   * @throws GeoveilError - if nothing was drawn.
   */
  readonly contribute = async (answer: Value | Answers): Promise<Receipt> => {
    const { offer, status } = this.#state;
    if (!offer || !this.#client || status === "loading" || status === "error") {
      throw this.#state.error ?? new GeoveilError("campaign-not-open", `campaign ${this.options.campaign} is not fetched yet`);
    }
    const opened = this.#opened;
    const { error: _, ...ready } = this.#state;
    this.#set(opened, { ...ready, status: "sending" });
    try {
      const receipt = await this.#client.contribute(offer.campaign.id, answer, { digest: offer.digest });
      void this.#send(opened, receipt);
      return receipt;
    } catch (error) {
      this.#set(opened, { ...ready, status: "ready", error: typed(error) });
      throw error;
    }
  };

  async #load(opened: number): Promise<void> {
    const { campaign: id, server, key, lifetime, policy: given, issuer } = this.options;
    const trustedKeys = key ? [PublicKey.parse(key)] : undefined;
    const storage = this.options.storage ?? (await IndexedDbStorage.open("geoveil"));
    // Permit nothing before the campaign has been read.
    const looking = new Client({ server, storage, policy: new Policy({ limits: {} }), background: false });
    let offer: Offer;
    let anew = globalThis.navigator?.onLine !== false;
    try {
      offer = await looking.offer(id, { kept: !anew });
    } catch (error) {
      if (!anew || !(error instanceof TransportError)) throw error;
      offer = await looking.offer(id, { kept: true });
      anew = false;
    }
    const asked = given ? (given instanceof Policy ? given : new Policy(given)) : withLifetime(Policy.permitting(offer), lifetime);
    const policy = trustedKeys ? new Policy({ ...asked.options, trustedKeys }) : asked;
    const client = new Client({ server, storage, policy, ...(issuer && { issuer }) });
    if (this.#opened !== opened) return client.close();
    this.#client = client;
    const { campaign } = offer;
    const nowUs = BigInt(Date.now()) * 1000n;
    const state = offer.closed ? "closed" : campaign.stateAt(nowUs);
    const own = (await client.history()).findLast((receipt) => receipt.campaignId === campaign.id);
    const known = { offer, epoch: policy.epochOf(campaign), persistent: client.persistent };
    if (own && (state === "closed" || own.status === "pending" || own.period === campaign.periodAt(nowUs))) {
      this.#set(opened, { ...known, status: "sending", receipt: own });
      return await this.#send(opened, own);
    }
    this.#set(opened, { ...known, status: "loading" });
    if (state !== "open") throw new GeoveilError("campaign-not-open", `campaign ${id} is ${state === "pending" ? "not open yet" : state}`);
    if (anew) await client.fetch(id);
    if (!given) await requireLeft(client, offer);
    this.#set(opened, { ...known, status: "ready" });
  }

  /** Send until the report is settled, or nobody watches any more. */
  async #send(opened: number, kept: Receipt): Promise<void> {
    let receipt = kept;
    while (this.#opened === opened) {
      const { error: _, ...state } = this.#state;
      if (receipt.status === "acknowledged") return this.#set(opened, { ...state, status: "sent", receipt });
      if (receipt.status !== "pending") {
        const text = receipt.status === "rejected" ? `the server refused the report (${receipt.reason}), and does not count it` : "the report could not be sent in time, and was given up";
        return this.#set(opened, { ...state, status: "error", receipt, error: new GeoveilError("transport", text) });
      }
      this.#set(opened, { ...state, status: "sending", receipt });
      const { pending } = await this.#client!.flush({ deadlineMs: FLUSH_MS });
      if (pending) await paused();
      receipt = (await this.#client!.history()).find(({ reportId }) => reportId === kept.reportId) ?? kept;
    }
  }

  #set(opened: number, state: SurveyState): void {
    if (this.#opened !== opened) return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

/** Refuse a survey with which all surveys together would learn too much, before anybody answers. */
async function requireLeft(client: Client, { campaign, price }: Offer): Promise<void> {
  if (!isForm(campaign) && campaign.readings) return; // one that was made may answer at no further cost
  const charges = isForm(campaign) ? campaign.charges : [{ attribute: campaign.attribute.name, privacy: price! }];
  for (const { attribute, spent, limit } of await client.budgets()) {
    const charge = charges.find((one) => one.attribute === attribute);
    if (charge && spent + charge.privacy.epsilon > limit.epsilon * (1 + 1e-9)) {
      throw new GeoveilError("budget-exceeded", `the limit on what surveys of this site may learn about ${attribute} leaves too little for this one: it is not answered`);
    }
  }
}

/** A while, or until there is a connection. */
async function paused(): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, PAUSE_MS);
    (timer as { unref?: () => void }).unref?.();
    globalThis.addEventListener?.("online", () => resolve(), { once: true });
  });
}

function typed(error: unknown): GeoveilError {
  return error instanceof GeoveilError ? error : new GeoveilError("storage", "something failed that no survey explains");
}
