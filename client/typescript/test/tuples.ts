/** Reads tuples of a campaign, a point, bits and answers, a line each, and counts those that differ. */
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Campaign, type Drawn } from "../src/campaign.js";
import { answered, type CampaignPoint, coarser, type Reading } from "../src/epoch.js";
import { whatItTells } from "../src/consent.js";
import { GeoveilError } from "../src/errors.js";
import { type Form, type Prepared, readForm } from "../src/form.js";
import { type Category, choiceOf, release } from "../src/gp/categories.js";
import { seeded, Tape } from "./files.js";
import { replayed, type Sequence } from "./sequences.js";

export interface Tuple {
  campaign?: string;
  point: number[];
  bits: string;
  id: string;
  answers: [number, string][];
}

/** A report of an epoch: readings and bits, and what is made of them. */
export interface Nested extends Omit<Tuple, "point"> {
  rate: { epsilon: number; per: number };
  before: Kept;
  latest: Kept;
  length_us: number;
  now_us: number;
}

interface Kept {
  reading: string[];
  bits: string;
  point: string[];
  begins_us: number;
  read_us: number;
}

/** Whether a device draws what a tuple says, of exactly its bits. */
export function agrees(campaign: Campaign, tuple: Tuple | Nested): boolean {
  const tape = new Tape(tuple.bits);
  const drawn = "latest" in tuple ? nested(campaign, tuple, tape) : campaign.draw(tuple.point, tape);
  const answers = drawn?.answers.map(({ queryIndex, value }) => [queryIndex, value.toString()]);
  return (
    JSON.stringify(answers) === JSON.stringify(tuple.answers) &&
    drawn?.id.toString(16).padStart(32, "0") === tuple.id &&
    tape.left === 0
  );
}

/** The report of an epoch; undefined if a campaign's point is another one. */
function nested(campaign: Campaign, tuple: Nested, tape: Tape): Drawn | undefined {
  const made: CampaignPoint[] = [];
  for (const { reading, bits, point, begins_us, read_us } of [tuple.latest, tuple.before]) {
    const beginsUs = BigInt(begins_us);
    const times = { beginsUs, endsUs: beginsUs + BigInt(tuple.length_us), drawnUs: BigInt(read_us) };
    const kept: Reading = { ...times, privacy: tuple.rate, point: reading.map(BigInt) };
    const own = new Tape(bits);
    const found = coarser(campaign, kept, own);
    if (found.point.join() !== point.join() || own.left) return undefined;
    made.push(found);
  }
  const before = campaign.readings?.extrapolated ? made[1] : undefined;
  return answered(campaign, made[0]!, before, BigInt(tuple.now_us), tape);
}

/** A report of a category. */
export interface Categorical {
  kind: Category;
  options: number;
  epsilon: number;
  value: string;
  given?: string;
  seed?: string;
  drawn: number;
  report: string[];
}

/** Whether a device sends what it says, of exactly its bits, through the mechanism that it says. */
export function sends({ kind, options, epsilon, value, given, seed = "later", drawn, report }: Categorical): boolean {
  const source = seeded(seed, given);
  const sent = release(kind, options, epsilon, BigInt(value), source);
  const chosen = kind === "ordinal" || kind === "subset" || choiceOf(options, epsilon) === kind;
  return chosen && sent.join() === report.join() && source.drawn === drawn;
}

/** Answers to a form, and the report that seeded bits make of them. */
export interface Formed {
  form?: string;
  /** With a form: what people are told of it. */
  tells?: string[];
  answers: Record<string, unknown>;
  /** What is released of them: points, or integers as text. */
  prepared: (number[] | string)[];
  seed: string;
  drawn: number;
  id: string;
  report: string[];
}

/** Whether a device prepares the answers as it says, and draws its report of exactly its bits. */
export function fills(form: Form, { answers, prepared, seed, drawn, id, report }: Formed): boolean {
  const source = seeded(seed);
  const own = form.prepare(answers);
  const given = prepared.map((one) => (typeof one === "string" ? BigInt(one) : one));
  // Geodesics differ by roundings.
  const near = (a: Prepared, b: Prepared): boolean =>
    typeof a === "bigint" || typeof b === "bigint" ? a === b : a.length === b.length && a.every((x, i) => Math.abs(x - b[i]!) <= (a.length - 1) * 1e-8);
  const sent = form.draw(given, source);
  return (
    own.every((one, i) => near(one, given[i]!)) &&
    own.length === given.length &&
    sent.answers.every(({ queryIndex }, i) => queryIndex === i) &&
    sent.answers.map(({ value }) => value).join() === report.join() &&
    sent.id.toString(16).padStart(32, "0") === id &&
    source.drawn === drawn
  );
}

/** What a form costs, as Python states it; nothing if it is refused. */
export interface Stated {
  columns: number;
  charges: { attribute: string; unit: string; epsilon: number; per: number; any_two?: number }[];
  any_two?: number;
}

export function states({ columns, charges, largestEpsilon }: Form, told: Partial<Stated>): void {
  const found = charges.map(({ attribute, unit, privacy, anyTwo }) => ({ attribute, unit, ...privacy, ...(anyTwo < Infinity && { any_two: anyTwo }) }));
  assert.deepEqual([columns, found, largestEpsilon], [told.columns, told.charges, told.any_two ?? Infinity]);
}

/** A form that is sound or refused as Python says. */
export function judged(bytes: Uint8Array, told: Partial<Stated>): void {
  if (told.charges) states(readForm(bytes), told);
  else assert.throws(() => readForm(bytes), GeoveilError);
}

export function bytesOf(hexadecimal: string): Uint8Array {
  return Uint8Array.from(hexadecimal.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

if (process.argv[1]?.endsWith("tuples.js")) {
  let [count, sequences, unequal, micros] = [0, 0, 0, 0];
  let campaign: Campaign | undefined;
  let form: Form | undefined;
  for await (const line of createInterface({ input: process.stdin })) {
    const tuple = JSON.parse(line) as Tuple | Nested | Sequence | Categorical | Formed | (Partial<Stated> & { changed: string });
    try {
      if ("operations" in tuple) {
        sequences += 1;
        await replayed(tuple);
        continue;
      }
      count += 1;
      if ("changed" in tuple) {
        judged(bytesOf(tuple.changed), tuple);
        continue;
      }
      if ("kind" in tuple) {
        if (!sends(tuple)) throw new Error("another report");
        continue;
      }
      const start = performance.now();
      if ("prepared" in tuple) {
        if (tuple.form) form = readForm(bytesOf(tuple.form));
        if (tuple.tells && whatItTells(form!).join("\n") !== tuple.tells.join("\n")) throw new Error("other sentences");
        if (!fills(form!, tuple)) throw new Error("another report");
        micros += 1000 * (performance.now() - start);
        continue;
      }
      if (tuple.campaign) campaign = new Campaign(bytesOf(tuple.campaign));
      const same = agrees(campaign!, tuple);
      micros += 1000 * (performance.now() - start);
      if (!same) throw new Error("other answers");
    } catch (error) {
      unequal += 1;
      if (unequal <= 10) console.error(count, campaign?.mechanism, campaign?.questions.map((q) => q.query.kind), String(error));
    }
  }
  console.log(JSON.stringify({ count, unequal, sequences, meanMicroseconds: Math.round(micros / count) }));
  process.exitCode = unequal ? 1 : 0;
}
