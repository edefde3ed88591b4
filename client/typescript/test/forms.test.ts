/** Forms: read, refused, priced, answered and drawn as in Python. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Campaign } from "../src/campaign.js";
import { GeoveilError, PrivateValueError } from "../src/errors.js";
import { type Form, readForm } from "../src/form.js";
import { vectors } from "./files.js";
import { bytesOf, fills, type Formed } from "./tuples.js";

interface Stated {
  columns: number;
  charges: { attribute: string; unit: string; epsilon: number; per: number; any_two?: number }[];
  any_two?: number;
}
interface Sound extends Stated {
  name: string;
  form: string;
  cases: Formed[];
}
/** Another form in bytes; refused if it has no charges. */
interface Changed extends Partial<Stated> {
  name: string;
  base: string;
  from: number;
  to: number;
  put: string;
}

const told = vectors<Sound | Changed>("forms.json", "forms");
const sound = told.filter((item) => "cases" in item);
const forms = new Map(sound.map(({ name, form }) => [name, bytesOf(form)]));
const form = (name: string): Form => readForm(forms.get(name)!);

function states({ columns, charges, largestEpsilon }: Form, told: Partial<Stated>): void {
  const found = charges.map(({ attribute, unit, privacy, anyTwo }) => ({ attribute, unit, ...privacy, ...(anyTwo < Infinity && { any_two: anyTwo }) }));
  assert.deepEqual([columns, found, largestEpsilon], [told.columns, told.charges, told.any_two ?? Infinity]);
}

test("the same answers and bits give the same reports and charges", () => {
  assert.equal(sound.length, 4);
  for (const item of sound) {
    states(form(item.name), item);
    for (const tuple of item.cases) {
      assert.ok(fills(form(item.name), tuple), item.name);
      const [first, ...others] = tuple.report;
      assert.ok(!fills(form(item.name), { ...tuple, report: [(BigInt(first!) ^ 1n).toString(), ...others] }));
      assert.ok(!fills(form(item.name), { ...tuple, drawn: tuple.drawn + 1 }));
    }
    assert.throws(() => new Campaign(forms.get(item.name)!), /is a form/);
  }
});

test("hostile forms are refused as Python refuses them", () => {
  const changes = told.filter((item) => "base" in item);
  assert.ok(changes.filter(({ charges }) => !charges).length > 80);
  for (const item of changes) {
    const base = forms.get(item.base)!;
    const bytes = Uint8Array.from([...base.subarray(0, item.from), ...bytesOf(item.put), ...base.subarray(item.to)]);
    if (item.charges) states(readForm(bytes), item);
    else assert.throws(() => readForm(bytes), GeoveilError, item.name);
  }
});

test("an answer that is none of its field is refused without being shown, and so are strange names", () => {
  const several = form("several");
  const sound = { rents: "yes", rent: 700, mood: "good", by: ["bus"] };
  assert.equal(several.prepare(sound).length, 5);
  for (const wrong of [
    { rents: "SECRET" },
    { rent: "SECRET" },
    { rent: NaN },
    { rent: undefined },
    { mood: null },
    { mood: 1 },
    { by: "SECRET" },
    { by: ["bus", "bus"] },
    { by: ["SECRET"] },
    { by: ["bus", "bike", "foot"] },
    { SECRET: 1 },
  ]) {
    const refused = (error: Error): boolean => error instanceof PrivateValueError && !error.message.includes("SECRET");
    assert.throws(() => several.prepare({ ...sound, ...wrong }), refused, JSON.stringify(wrong));
  }
  for (const answers of [null, undefined, 1, [], ["yes"]]) assert.throws(() => several.prepare(answers as never), PrivateValueError);
});

test("what a field holds that does not apply has no effect, nor whether there is anything", () => {
  const several = form("several");
  const none = several.prepare({ rents: "no", by: [] });
  assert.deepEqual(none, [1n, [2000], 1n, 0n, 0n]);
  for (const more of [{ rent: 5 }, { rent: "no number" }, { mood: "bad", why: "fair" }, { mood: "no option" }]) {
    assert.deepEqual(several.prepare({ rents: "no", by: [], ...more }), none);
  }
  assert.deepEqual(several.applying({ rents: "yes", mood: "fair" }).map(({ name }) => name), ["rents", "rent", "mood", "why", "by"]);
});
