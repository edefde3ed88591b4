// A service worker: it serves this page's files without a connection, and sends waiting reports once
// there is one, even if no page is open. It answers from the network if that is reachable.

import { Client, IndexedDbStorage, Policy } from "./geoveil-client.js";

const KEPT = "geoveil";
const PAGE = "/take-part/";
const FILES = [
  "take-part.css", "take-part.js", "odds.js", "dots.js", "invited.js", "map.js", "icon.svg", "coastline.json",
  ...["chunk", "client", "de", "ed25519", "en", "es", "fields", "fr", "geographiclib-geodesic.min", "numbers", "survey", "tokens", "vector"].map((one) => `geoveil-${one}.js`),
].map((name) => `/pages/${name}`);
const FLUSH_MS = 30_000;

/** Store all files, or none, so that two versions never mix. */
async function keep() {
  await (await caches.open(KEPT)).addAll([PAGE, ...FILES]);
}

addEventListener("install", (event) => event.waitUntil(keep()));

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  const page = request.mode === "navigate";
  if (request.method !== "GET" || origin !== location.origin || !(page || FILES.includes(pathname))) return;
  event.respondWith(fetch(request).catch(async (error) => {
    const held = await caches.match(page ? PAGE : pathname);
    if (held) return held;
    throw error;
  }));
  if (page) event.waitUntil(keep().catch(() => undefined));
});

addEventListener("sync", (event) => event.waitUntil(send()));

async function send() {
  const storage = await IndexedDbStorage.open("geoveil");
  try {
    const client = new Client({ server: location.origin, storage, policy: new Policy({ limits: {} }), background: false });
    const { pending } = await client.flush({ deadlineMs: FLUSH_MS });
    if (pending) throw new Error("not all was sent"); // so that the browser tries again later
  } finally {
    storage.database.close();
  }
}
