import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

// Of the compiled test: build/test in client/typescript.
const folder = new URL("../../../../proto/vectors/", import.meta.url);

/** The items of a file of proto/vectors. */
export function vectors<T>(name: string, field: string): T[] {
  const found = JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Record<string, unknown>;
  assert.equal(found.version, 2);
  return found[field] as T[];
}
