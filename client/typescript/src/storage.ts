/**
 * Where a device keeps campaigns and reports: perturbed answers, prices and times, nothing private.
 *
 * A report is kept before it leaves, and one campaign and period has one report for ever: the work
 * of one tab, worker or process has the whole state to itself while it draws and keeps.
 */
import { GeoveilError } from "./errors.js";

export type Status = "pending" | "acknowledged" | "rejected" | "expired";

/** A perturbed point, integers on a grid, and the epoch that it answers for. */
export interface KeptPoint {
  /** What the coordinates are, so that no point is taken for one of another plane. */
  readonly space: string;
  /** When the epoch began, in microseconds since 1970. */
  readonly beginsUs: string;
  /** What the reading cost that it is, or was made from. */
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
  /** ε between any two values; undefined: nothing is promised of them. */
  readonly anyTwo?: number | undefined;
}

/** A report and what became of it. All but the last six fields never change. */
export interface Entry {
  readonly campaignId: string;
  readonly period: number;
  /** SHA-256 of the campaign's bytes, in hexadecimal. */
  readonly digest: string;
  /** A serialised Report in hexadecimal: these bytes are sent, and never made again. */
  readonly report: string;
  /** Of a campaign about one attribute one; of a form those of all fields that are not open. */
  readonly charges: readonly Charged[];
  /** By which power of two numbers of the report are multiplied. */
  readonly stepExponent: number;
  /** The same of a form, by query_index. */
  readonly exponents?: readonly number[] | undefined;
  /** When the epoch began whose reading answered: the price is that of the reading, and paid once. */
  readonly epochUs?: string | undefined;
  /** When the epoch began whose reading it goes on from, if it does. */
  readonly beforeUs?: string | undefined;
  /** That reading, if it was drawn for this report: kept with it, or not at all. */
  readonly reading?: (KeptPoint & { readonly endsUs: string }) | undefined;
  /** The campaign's points of readings that were drawn for this report. */
  readonly points?: readonly KeptPoint[] | undefined;
  /** Microseconds since 1970. */
  readonly closesUs: string;
  readonly drawnUs: string;
  /** Where the campaign asks for a token: 32 random bytes in hexadecimal, of which what blinds it is made. */
  readonly blinding?: string | undefined;
  readonly status: Status;
  /** The report with its token: from then on the issuer is not asked. */
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

/** What may be done while nobody else does anything. */
export interface Journal {
  campaign(id: string): Promise<Pinned | undefined>;
  entries(): Promise<readonly Entry[]>;
  /** Keep a campaign, durably. */
  pin(campaign: Pinned): Promise<void>;
  /** Keep a report, durably: refused if there is one for its campaign and period. */
  add(entry: Entry): Promise<void>;
  /** Note what became of a report. */
  settle(entry: Entry): Promise<void>;
}

export interface Storage {
  /** Whether what is kept outlives this window or process, as far as it is known. */
  readonly persistent: boolean;
  /** Do something alone among all that share the storage. */
  exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T>;
}

function keyOf({ campaignId, period }: { campaignId: string; period: number }): string {
  return `${campaignId}/${period}`;
}

function taken(): GeoveilError {
  return new GeoveilError("storage", "there is a report for this campaign and period already");
}

/** What is kept as long as the page or the process lives: so long do limits last. */
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

/** Of what is kept; any other is refused. Up to 1 it was not kept which reading a report goes on from, up to 2 it had one price. */
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
    const opening = indexedDB.open(name, VERSION);
    opening.onupgradeneeded = ({ oldVersion }) => {
      if (oldVersion !== 0) return opening.transaction!.abort();
      opening.result.createObjectStore(CAMPAIGNS!, { keyPath: "campaignId" });
      opening.result.createObjectStore(REPORTS!, { keyPath: ["campaignId", "period"] });
    };
    const database = await settled(opening);
    // Where the browser does not promise to keep it, as in a private window, it may be gone sooner.
    const kept = await navigator.storage?.persist?.().catch(() => false);
    return new IndexedDbStorage(name, kept ?? false, database);
  }

  async exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T> {
    return await navigator.locks.request(`geoveil ${this.name}`, () => work(this.#journal));
  }

  #read<T>(store: string, get: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    return settled(get(this.database.transaction(store, "readonly").objectStore(store)));
  }

  async #write(store: string, put: (store: IDBObjectStore) => IDBRequest): Promise<void> {
    const transaction = this.database.transaction(store, "readwrite", { durability: "strict" });
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

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failed(request.error));
    if ("onblocked" in request) {
      (request as unknown as IDBOpenDBRequest).onblocked = () => reject(failed(null));
    }
  });
}
