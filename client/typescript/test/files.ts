import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { hex, unhex } from "../src/envelope.js";
import type { BitSource } from "../src/exact/bits.js";
import { CampaignEnvelopeSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { loadForms } from "../src/form.js";
import { loadGeodesics } from "../src/gp/plane.js";
import { loadMessages } from "../src/words.js";
import { loadVectors } from "../src/gp/together.js";

await Promise.all([loadVectors(), loadForms(), loadGeodesics(), loadMessages()]); // before any campaign is made

// Of the compiled test: build/test in client/typescript.
const folder = new URL("../../../../proto/vectors/", import.meta.url);

/** The items of a file of proto/vectors. */
export function vectors<T>(name: string, field: string): T[] {
  const found = JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Record<string, unknown>;
  assert.equal(found.version, 3);
  const items = found[field] as T[];
  if (field === "campaigns") (items as Partial<Changed>[]).forEach(complete);
  return items;
}

/** A campaign that is another one with some bytes replaced. */
interface Changed {
  name: string;
  envelope: string;
  base: string;
  from: number;
  to: number;
  put: string;
}

/** Give what is another campaign, with some bytes replaced, an unsigned envelope of its own. */
function complete({ base, from, to, put }: Partial<Changed>, i: number, items: Partial<Changed>[]): void {
  if (base === undefined) return;
  const { campaign } = fromBinary(CampaignEnvelopeSchema, unhex(items.find(({ name }) => name === base)!.envelope!)!);
  const replaced = Uint8Array.from([...campaign.subarray(0, from), ...unhex(put!)!, ...campaign.subarray(to)]);
  items[i]!.envelope = hex(toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign: replaced })));
}

const scratch = mkdtempSync(join(tmpdir(), "geoveil-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

/** An empty folder, which is gone when the process ends. */
export const emptyFolder = (): string => mkdtempSync(join(scratch, "device-"));

/** Bits that were written down; to ask for more than there are is an error. */
export class Tape implements BitSource {
  #bits: string;
  constructor(hexadecimal: string) {
    this.#bits = [...hexadecimal].map((c) => parseInt(c, 16).toString(2).padStart(4, "0")).join("");
  }
  bits(count: number): bigint {
    if (count > this.#bits.length) throw new Error("more bits are asked for than there are");
    const drawn = this.#bits.slice(0, count);
    this.#bits = this.#bits.slice(count);
    return count ? BigInt(`0b${drawn}`) : 0n;
  }
  /** What is left, but for the zeros that fill up a byte. */
  get left(): number {
    return this.#bits.length < 8 && !this.#bits.includes("1") ? 0 : this.#bits.length;
  }
}

/** The bits that are given, then the same in every run: SHA-256 in counter mode. Says how many were drawn. */
export function seeded(seed: string, given = ""): BitSource & { drawn: number } {
  let [pool, left, blocks] = [BigInt(`0b0${given}`), given.length, 0];
  return {
    drawn: 0,
    bits(count) {
      while (left < count) {
        pool = (pool << 256n) | BigInt(`0x${createHash("sha256").update(`${seed}/${blocks++}`).digest("hex")}`);
        left += 256;
      }
      left -= count;
      this.drawn += count;
      const value = pool >> BigInt(left);
      pool &= (1n << BigInt(left)) - 1n;
      return value;
    },
  };
}
