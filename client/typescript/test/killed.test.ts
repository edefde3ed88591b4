/** A form in processes of its own: killed at every step, cut off in the middle of a write, and raced. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { create, toBinary } from "@bufbuild/protobuf";
import { hex } from "../src/envelope.js";
import { CampaignEnvelopeSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { FileStorage } from "../src/node.js";
import { emptyFolder, vectors } from "./files.js";
import { bytesOf } from "./tuples.js";

const STEPS = ["pin", "add", "mark", "submit", "settle"].flatMap((name) => [`before ${name}`, `after ${name}`]);
const forms = vectors<{ name: string; form?: string; columns: number }>("forms.json", "forms");
const { form, columns } = forms.find(({ name }) => name === "conditions")!;
const envelope = hex(toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign: bytesOf(form!) })));

interface Lived {
  readonly signal: NodeJS.Signals | null;
  readonly told: { readonly reportId: string; readonly many: number; readonly status: string; readonly columns: number } | undefined;
}

/** The command of a process that answers the form. */
function command(folder: string, rent: number): string[] {
  const answers = JSON.stringify({ rents: rent > 500 ? "yes" : "no", rent, by: ["bus"], open: "x" });
  return [fileURLToPath(new URL("./mortal.js", import.meta.url)), folder, envelope, answers];
}

/** Its life, until its end. */
function lived(folder: string, rent: number, killed?: string): Promise<Lived> {
  const process_ = spawn(process.execPath, [...command(folder, rent), ...(killed ? [killed] : [])], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  process_.stdout.on("data", (part: Buffer) => (said += part.toString()));
  return new Promise((resolve) => process_.on("close", (_code, signal) => resolve({ signal, told: said ? (JSON.parse(said) as Lived["told"]) : undefined })));
}

const sent = (folder: string): string[] => (existsSync(join(folder, "sent")) ? readFileSync(join(folder, "sent"), "utf8").trim().split("\n") : []);

/** Nothing but one whole report has ever left a folder. */
function leftOnce(folder: string, { signal, told }: Lived): void {
  assert.equal(signal, null);
  assert.deepEqual([told?.many, told?.status, told?.columns], [1, "acknowledged", columns]);
  assert.equal(new Set(sent(folder)).size, 1);
  assert.ok(sent(folder)[0]!.includes(told!.reportId));
}

test("a process that is killed at any step has drawn the whole form once", async () => {
  await Promise.all(
    STEPS.map(async (step) => {
      const folder = emptyFolder();
      const dead = await lived(folder, 700, step);
      assert.deepEqual([dead.signal, dead.told], ["SIGKILL", undefined], step);
      const before = sent(folder);
      leftOnce(folder, await lived(folder, 300));
      assert.ok(before.every((one) => one === sent(folder)[0]), step);
    }),
  );
});

test("a form that is cut off in the middle of a write has not been drawn, and has not left", async () => {
  const whole = emptyFolder();
  await lived(whole, 700, "after add");
  const journal = readFileSync(join(whole, "journal.jsonl"), "utf8");
  const last = journal.slice(0, -1).lastIndexOf("\n") + 1;
  for (const cut of [last + 1, Math.floor((last + journal.length) / 2), journal.length - 1]) {
    const folder = emptyFolder();
    await lived(folder, 700, "after add");
    truncateSync(join(folder, "journal.jsonl"), cut);
    assert.equal(sent(folder).length, 0);
    leftOnce(folder, await lived(folder, 300));
  }
});

test("a form that is cut off by a full disk is refused at once", { skip: process.platform === "win32" }, async () => {
  const whole = emptyFolder();
  await lived(whole, 700, "after add");
  const [pinned, drawn] = readFileSync(join(whole, "journal.jsonl"), "utf8").split("\n").map((line) => line.length + 1);
  const blocks = Math.floor((pinned! + drawn! - 1) / 512);
  assert.ok(512 * blocks > pinned!, "the limit is within the second line");
  const folder = emptyFolder();
  const limited = `trap '' XFSZ; ulimit -f ${blocks}; exec "$@"`;
  const { stderr } = spawnSync("sh", ["-c", limited, "sh", process.execPath, ...command(folder, 700)], { encoding: "utf8" });
  assert.match(stderr, /the storage at .* can't be used: EFBIG/);
  assert.equal(sent(folder).length, 0);
  leftOnce(folder, await lived(folder, 300));
});

/** Whether a folder opens within a second that has these files; one that doesn't is let go. */
async function opens(files: Record<string, string>): Promise<boolean> {
  const folder = emptyFolder();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const opening = FileStorage.open(folder).then(() => true);
  const opened = await Promise.race([opening, new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 1000))]);
  for (const name of opened ? [] : Object.keys(files)) unlinkSync(join(folder, name));
  assert.ok(await opening);
  assert.deepEqual(readdirSync(folder), []);
  return opened;
}

test("whatever a process that dies leaves of its lock, another one goes on; a living one's holds", { skip: process.platform !== "linux" }, async () => {
  const lock = "journal.lock";
  for (const owner of ["", "999999999 1", `${process.pid} 1`]) {
    assert.ok(await opens({ [lock]: owner }), owner);
    for (const remover of ["", "999999998 1"]) assert.ok(await opens({ [lock]: owner, [`${lock}.left`]: remover }));
  }
  const stat = readFileSync("/proc/self/stat", "utf8");
  const living = `${process.pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  assert.ok(!(await opens({ [lock]: living })));
});

test("processes that race draw the whole form once", async () => {
  const folder = emptyFolder();
  const all = await Promise.all([700, 300, 900].map((rent) => lived(folder, rent)));
  for (const one of all) leftOnce(folder, one);
  assert.equal(new Set(all.map(({ told }) => told!.reportId)).size, 1);
});
