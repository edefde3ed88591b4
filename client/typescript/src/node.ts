/** A device's storage on disk in Node, with the guarantees of a browser's database. */
import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { link, mkdir, open, readFile, stat, truncate, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GeoveilError } from "./errors.js";
import { type Entry, type Journal, type Pinned, type Storage, VERSION } from "./storage.js";

const FILE = "journal.jsonl";
const LOCK = "journal.lock";
const PATIENCE_MS = 30_000;

type Line = { readonly campaign: Pinned } | { readonly report: Entry };

/**
 * A directory of one person's device. Each line of its one file ends with a checksum of itself and
 * all before it; a line is flushed to disk before it counts, and a file with a changed byte is not used.
 */
export class FileStorage implements Storage {
  readonly persistent = true;
  readonly #campaigns = new Map<string, Pinned>();
  readonly #entries = new Map<string, Entry>();
  #size = 0;
  #chain = `${VERSION}`;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(readonly folder: string) {}

  static async open(folder: string): Promise<FileStorage> {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw unusable(folder, error);
    }
    const storage = new FileStorage(folder);
    await storage.exclusively(() => Promise.resolve());
    return storage;
  }

  exclusively<T>(work: (journal: Journal) => Promise<T>): Promise<T> {
    const next = this.#last.then(() => this.#locked(work));
    this.#last = next.catch(() => undefined);
    return next;
  }

  async #locked<T>(work: (journal: Journal) => Promise<T>): Promise<T> {
    const lock = join(this.folder, LOCK);
    await this.#lock(lock);
    try {
      await this.#catchUp();
      return await work(this.#journal);
    } finally {
      await unlink(lock).catch(() => undefined);
    }
  }

  /** A file that only one process can make; one left behind by a process that died is removed. */
  async #lock(lock: string): Promise<void> {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      if (await made(lock, this.folder)) return;
      const owner = await deadOwner(lock);
      if (owner !== undefined) {
        // Only the holder of this second file removes a dead process's lock, so that nobody removes the
        // next holder's.
        const mine = `${lock}.left`;
        if (await made(mine, this.folder)) {
          if ((await readFile(lock, "utf8").catch(() => undefined)) === owner) await unlink(lock).catch(() => undefined);
          await unlink(mine).catch(() => undefined);
        } else if ((await deadOwner(mine)) !== undefined) await unlink(mine).catch(() => undefined);
      }
      if (Date.now() > end) {
        throw new GeoveilError("storage", `the storage at ${this.folder} is in use by another process`);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Read what other processes have added. */
  async #catchUp(): Promise<void> {
    const path = join(this.folder, FILE);
    const { size } = await stat(path).catch(() => ({ size: 0 }));
    if (size === this.#size) return;
    if (size < this.#size) throw damaged(this.folder);
    const text = (await readFile(path)).subarray(this.#size).toString("utf8");
    const lines = text.split("\n");
    // A line without an end was being written when its process died, and never counted.
    const torn = lines.pop() ?? "";
    for (const line of lines) this.#take(line);
    this.#size += Buffer.byteLength(text) - Buffer.byteLength(torn);
    if (torn) await truncate(path, this.#size);
  }

  #take(line: string): void {
    const cut = line.lastIndexOf(" ");
    const [json, checksum] = [line.slice(0, cut), line.slice(cut + 1)];
    if (this.#checksum(json) !== checksum) throw damaged(this.folder);
    this.#chain = checksum;
    const found = JSON.parse(json) as Line;
    if ("campaign" in found) this.#campaigns.set(found.campaign.campaignId, found.campaign);
    else this.#entries.set(`${found.report.campaignId}/${found.report.period}`, found.report);
  }

  #checksum(json: string): string {
    return createHash("sha256").update(`${this.#chain}\n${json}`).digest("hex").slice(0, 32);
  }

  async #append(line: Line): Promise<void> {
    const json = JSON.stringify(line);
    const text = `${json} ${this.#checksum(json)}`;
    try {
      const file = await open(join(this.folder, FILE), constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND, 0o600);
      try {
        await file.appendFile(`${text}\n`); // all of it, where `write` may stop at a full disk
        await file.datasync();
      } finally {
        await file.close();
      }
    } catch (error) {
      throw unusable(this.folder, error);
    }
    this.#take(text);
    this.#size += Buffer.byteLength(text) + 1;
  }

  readonly #journal: Journal = {
    campaign: (id) => Promise.resolve(this.#campaigns.get(id)),
    entries: () => Promise.resolve([...this.#entries.values()]),
    pin: (campaign) => this.#append({ campaign }),
    add: (report) =>
      this.#entries.has(`${report.campaignId}/${report.period}`)
        ? Promise.reject(new GeoveilError("storage", "there is a report for this campaign and period already"))
        : this.#append({ report }),
    settle: (report) => this.#append({ report }),
  };
}

/**
 * Make a file that names this process, unless there is one; return whether it was made. It is never without
 * the name, whenever the process dies.
 */
async function made(path: string, folder: string): Promise<boolean> {
  const named = `${path}.${process.pid}.${randomUUID()}`;
  try {
    await writeFile(named, await identity(process.pid), { flag: "wx", mode: 0o600 });
    await link(named, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw unusable(folder, error);
  } finally {
    await unlink(named).catch(() => undefined);
  }
}

/** The dead process that a file names, "" if it names none, as after a power failure; undefined: no file, or a live one. */
async function deadOwner(path: string): Promise<string | undefined> {
  const owner = await readFile(path, "utf8").catch(() => undefined);
  if (!owner) return owner;
  return owner === (await identity(Number(owner.split(" ")[0]))) ? undefined : owner;
}

/** A process's number and, if the system tells it, start; "" if there is none. */
async function identity(number: number): Promise<string> {
  try {
    process.kill(number, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return "";
  }
  const told = await readFile(`/proc/${number}/stat`, "utf8").catch(() => "");
  return `${number} ${told.slice(told.lastIndexOf(")") + 2).split(" ")[19] ?? ""}`;
}

function damaged(folder: string): GeoveilError {
  return new GeoveilError("storage", `the storage at ${folder} is damaged or of another version, and is not used`);
}

function unusable(folder: string, error: unknown): GeoveilError {
  return new GeoveilError("storage", `the storage at ${folder} can't be used: ${(error as NodeJS.ErrnoException).code ?? "failed"}`);
}
