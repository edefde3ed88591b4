/**
 * Where a device stores campaigns and reports: perturbed answers, prices and times, nothing private.
 *
 * A report is stored before it leaves, and a campaign and period has one report for ever: a tab, worker
 * or process has exclusive access while it draws and stores.
 */
import { GeoveilError } from "./errors.js";

export type Status = "pending" | "acknowledged" | "rejected" | "expired";

/** A perturbed point, integers on a grid, and its epoch. */
export interface KeptPoint {
  /** The kind of coordinates, so that no point is taken for one of another plane. */
  readonly space: string;
  /** When the epoch began, in microseconds since 1970. */
  readonly beginsUs: string;
  /** The cost of the reading that it is, or was made from. */
  readonly epsilon: number;
  readonly per: number;
  readonly point: readonly string[];
}

/** What a report cost one attribute. */
export interface Charged {
  readonly attribute: string;
  readonly unit: string;
  readonly epsilon: number;
  readonly per: number;
  readonly delta?: number | undefined;
  /** Undefined: any distance. */
  readonly reach?: number | undefined;
  /** ε between any two values; undefined: nothing is promised. */
  readonly anyTwo?: number | undefined;
}

/** A report and its outcome. All but the last six fields never change. */
export interface Entry {
  readonly campaignId: string;
  readonly period: number;
  /** SHA-256 of the campaign's bytes, in hexadecimal. */
  readonly digest: string;
  /** A serialised Report in hexadecimal: these bytes are sent, and never serialised again. */
  readonly report: string;
  /** One for a campaign about one attribute; for a form, those of all fields that are not open. */
  readonly charges: readonly Charged[];
  /** The power of two by which the report's numbers are multiplied. */
  readonly stepExponent: number;
  /** The same for a form, by query_index. */
  readonly exponents?: readonly number[] | undefined;
  /** The start of the epoch whose reading answered: the price is that of the reading, and is paid once. */
  readonly epochUs?: string | undefined;
  /** The start of the epoch whose reading it was extrapolated from, if any. */
  readonly beforeUs?: string | undefined;
  /** That reading, if it was drawn for this report: stored with it, or not at all. */
  readonly reading?: (KeptPoint & { readonly endsUs: string }) | undefined;
  /** The campaign's points that were drawn for this report. */
  readonly points?: readonly KeptPoint[] | undefined;
  /** Microseconds since 1970. */
  readonly closesUs: string;
  readonly drawnUs: string;
  /** Where the campaign asks for a token: 32 random bytes in hexadecimal, from which its blinding is derived. */
  readonly blinding?: string | undefined;
  readonly status: Status;
  /** The report with its token: then the issuer is no longer asked. */
  readonly complete?: string | undefined;
  readonly sentUs?: string | undefined;
  readonly settledUs?: string | undefined;
  readonly reason?: string | undefined;
  readonly failure?: string | undefined;
}

/** A campaign as this device saw it first. */
export interface Pinned {
  readonly campaignId: string;
  readonly digest: string;
  /** In hexadecimal. */
  readonly envelope: string;
}

/** Operations with exclusive access. */
export interface Journal {
  campaign(id: string): Promise<Pinned | undefined>;
  entries(): Promise<readonly Entry[]>;
  /** Keep a campaign, durably. */
  pin(campaign: Pinned): Promise<void>;
  /** Store a report durably; refused if there is one for its campaign and period. */
  add(entry: Entry): Promise<void>;
  /** Record the outcome of a report. */
  settle(entry: Entry): Promise<void>;
}

export interface Storage {
  /** Whether the storage outlives this window or process, as far as known. */
  readonly persistent: boolean;
  /** Do some work with exclusive access to the storage. */
  exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T>;
}

function keyOf({ campaignId, period }: { campaignId: string; period: number }): string {
  return `${campaignId}/${period}`;
}

function taken(): GeoveilError {
  return new GeoveilError("storage", "there is a report for this campaign and period already");
}

/** Storage that lasts as long as the page or process: so do its limits. */
export class MemoryStorage implements Storage {
  readonly persistent = false;
  readonly #campaigns = new Map<string, Pinned>();
  readonly #entries = new Map<string, Entry>();
  #last: Promise<unknown> = Promise.resolve();

  exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T> {
    const next = this.#last.then(() => work(this.#journal));
    this.#last = next.catch(() => undefined);
    return next;
  }

  readonly #journal: Journal = {
    campaign: (id) => Promise.resolve(this.#campaigns.get(id)),
    entries: () => Promise.resolve([...this.#entries.values()]),
    pin: (campaign) => {
      this.#campaigns.set(campaign.campaignId, campaign);
      return Promise.resolve();
    },
    add: (entry) => {
      if (this.#entries.has(keyOf(entry))) return Promise.reject(taken());
      this.#entries.set(keyOf(entry), entry);
      return Promise.resolve();
    },
    settle: (entry) => {
      this.#entries.set(keyOf(entry), entry);
      return Promise.resolve();
    },
  };
}

/**
 * The stored format; any other is refused. Version 1 did not record the reading that a report was
 * extrapolated from; up to 2 a report had one price.
 */
export const VERSION = 4;
const [CAMPAIGNS, REPORTS] = ["campaigns", "reports"];

/** IndexedDB with a Web Lock, shared by all tabs and workers of an origin. */
export class IndexedDbStorage implements Storage {
  private constructor(
    readonly name: string,
    readonly persistent: boolean,
    readonly database: IDBDatabase,
  ) {}

  static async open(name = "geoveil"): Promise<IndexedDbStorage> {
    if (typeof indexedDB === "undefined" || !globalThis.navigator?.locks) {
      throw new GeoveilError("storage", "IndexedDB and Web Locks are needed, as over HTTPS");
    }
    const opening = granted(() => indexedDB.open(name, VERSION));
    opening.onupgradeneeded = ({ oldVersion }) => {
      if (oldVersion !== 0) return opening.transaction!.abort();
      opening.result.createObjectStore(CAMPAIGNS!, { keyPath: "campaignId" });
      opening.result.createObjectStore(REPORTS!, { keyPath: ["campaignId", "period"] });
    };
    const database = await settled(opening);
    // Without the browser's promise to keep it, as in a private window, it may vanish sooner.
    const kept = await navigator.storage?.persist?.().catch(() => false);
    return new IndexedDbStorage(name, kept ?? false, database);
  }

  async exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T> {
    return await navigator.locks.request(`geoveil ${this.name}`, () => work(this.#journal));
  }

  #read<T>(store: string, get: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    return settled(get(granted(() => this.database.transaction(store, "readonly")).objectStore(store)));
  }

  async #write(store: string, put: (store: IDBObjectStore) => IDBRequest): Promise<void> {
    const transaction = granted(() => this.database.transaction(store, "readwrite", { durability: "strict" }));
    const done = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(failed(transaction.error));
    });
    put(transaction.objectStore(store));
    await done;
  }

  readonly #journal: Journal = {
    campaign: (id) => this.#read(CAMPAIGNS!, (store) => store.get(id) as IDBRequest<Pinned | undefined>),
    entries: async () => {
      const found = await this.#read(REPORTS!, (store) => store.getAll() as IDBRequest<Entry[]>);
      return found.sort((a, b) => (BigInt(a.drawnUs) < BigInt(b.drawnUs) ? -1 : 1));
    },
    pin: (campaign) => this.#write(CAMPAIGNS!, (store) => store.put(campaign)),
    add: (entry) => this.#write(REPORTS!, (store) => store.add(entry)),
    settle: (entry) => this.#write(REPORTS!, (store) => store.put(entry)),
  };
}

function failed(error: DOMException | null): GeoveilError {
  return new GeoveilError("storage", `the browser's database can't be used: ${error?.name ?? "aborted"}`);
}

/** What the browser grants at once: nothing in a sandboxed frame, or after its user cleared the data of the site. */
function granted<T>(ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    throw failed(error as DOMException);
  }
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failed(request.error));
    if ("onblocked" in request) {
      (request as unknown as IDBOpenDBRequest).onblocked = () => reject(failed(null));
    }
  });
}
