/** Numbers as people write them, by the same table as Python's, and as Intl writes them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readNumber, separatorsOf, spelled } from "../src/numbers.js";
import { vectors } from "./files.js";

interface Typed {
  text: string;
  /** What it can mean; the last of them is meant where it is sure. */
  numbers: number[];
  sure: string[];
}

const items = vectors<Typed | { locale: string } | { number: number; spelled: string }>("numbers.json", "numbers");
const locales = items.flatMap((item) => ("locale" in item ? [item.locale] : []));

test("forty inputs in nine locales", () => {
  for (const item of items) {
    if (!("text" in item)) continue;
    for (const locale of locales) {
      const sure: boolean = item.sure.includes(locale);
      const numbers: number[] = sure ? item.numbers.slice(-1) : item.numbers;
      assert.deepEqual(readNumber(item.text, separatorsOf(locale), "dollar"), { numbers, sure }, `${item.text} in ${locale}`);
    }
  }
});

test("what Intl writes is read where it is written, and is asked about elsewhere if it could be another", () => {
  const cents = fc.integer({ min: -(10 ** 10), max: 10 ** 10 }).map((x) => x / 100);
  fc.assert(
    fc.property(cents, fc.constantFrom(...locales), fc.constantFrom(...locales), (x, home, away) => {
      const text = new Intl.NumberFormat(home, { maximumFractionDigits: 2 }).format(x);
      const { numbers, sure } = readNumber(text, separatorsOf(away));
      assert.ok(numbers.includes(x), `${text} in ${away}`);
      assert.ok(!sure || numbers.length === 1, text);
      if (home === away) assert.ok(sure, `${text} in ${home}`);
    }),
    { numRuns: 20_000, seed: 1 },
  );
});

test("numbers are spelled", () => {
  for (const item of items) if ("spelled" in item) assert.equal(spelled(item.number), item.spelled);
});
