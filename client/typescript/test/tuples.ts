/** Reads tuples of a campaign, a point, bits and answers, a line each, and counts those that differ. */
import { createInterface } from "node:readline";
import { Campaign } from "../src/campaign.js";
import type { BitSource } from "../src/exact/bits.js";

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

export interface Tuple {
  campaign?: string;
  point: number[];
  group: number | null;
  bits: string;
  id: string;
  answers: [number, string][];
}

/** Whether a device draws what a tuple says, of exactly its bits. */
export function agrees(campaign: Campaign, tuple: Tuple): boolean {
  const tape = new Tape(tuple.bits);
  const drawn = campaign.draw(tuple.point, tuple.group ?? undefined, tape);
  const answers = drawn.answers.map(({ queryIndex, value }) => [queryIndex, value.toString()]);
  return (
    JSON.stringify(answers) === JSON.stringify(tuple.answers) &&
    drawn.id.toString(16).padStart(32, "0") === tuple.id &&
    tape.left === 0
  );
}

export function bytesOf(hexadecimal: string): Uint8Array {
  return Uint8Array.from(hexadecimal.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

if (process.argv[1]?.endsWith("tuples.js")) {
  let [count, unequal, micros] = [0, 0, 0];
  let campaign: Campaign | undefined;
  for await (const line of createInterface({ input: process.stdin })) {
    const tuple = JSON.parse(line) as Tuple;
    count += 1;
    try {
      if (tuple.campaign) campaign = new Campaign(bytesOf(tuple.campaign));
      const start = performance.now();
      const same = agrees(campaign!, tuple);
      micros += 1000 * (performance.now() - start);
      if (!same) throw new Error("other answers");
    } catch (error) {
      unequal += 1;
      if (unequal <= 10) console.error(count, campaign?.mechanism, campaign?.questions.map((q) => q.query.kind), String(error));
    }
  }
  console.log(JSON.stringify({ count, unequal, meanMicroseconds: Math.round(micros / count) }));
  process.exitCode = unequal ? 1 : 0;
}
