// Tiles of a base map. The tiles fetched depend on the survey alone, never on where somebody looks: all
// tiles of its area come at once, and moving the map fetches nothing more.

import { PbfReader, PMTiles, VectorTile } from "./geoveil-map.js";

/** For a base map, and for the two closest zooms of streets. */
const [MOST_TILES, MOST_STREETS] = [96, 256];
const MOST_PART = 4 << 20;
/** Parts of a file closer together than this, in bytes, come in one request. */
const GAP = 65_536;
const MERCATOR_DEG = 85;
const RADIANS = Math.PI / 180;

/** Parts of a file of this origin, as PMTiles asks for them: many at a time. */
class Parts {
  #waiting = [];

  constructor(path) {
    this.path = path;
  }

  getKey() {
    return this.path;
  }

  getBytes(offset, length) {
    return new Promise((resolve, reject) => {
      if (!this.#waiting.length) setTimeout(() => this.#fetch());
      this.#waiting.push({ offset, end: offset + length, resolve, reject });
    });
  }

  #fetch() {
    const groups = [];
    for (const one of this.#waiting.sort((a, b) => a.offset - b.offset)) {
      const last = groups.at(-1);
      if (last && one.offset < last.end + GAP && one.end - last.offset <= MOST_PART) {
        last.parts.push(one);
        last.end = Math.max(last.end, one.end);
      } else groups.push({ offset: one.offset, end: one.end, parts: [one] });
    }
    this.#waiting = [];
    for (const { offset, end, parts } of groups) {
      this.#bytes(offset, end).then(
        (data) => parts.forEach((one) => one.resolve({ data: data.slice(one.offset - offset, one.end - offset) })),
        (error) => parts.forEach((one) => one.reject(error)),
      );
    }
  }

  async #bytes(offset, end) {
    const answer = await fetch(this.path, { headers: { range: `bytes=${offset}-${end - 1}` } });
    if (answer.status !== 206) throw new Error(`${this.path}: status ${answer.status}`);
    return await answer.arrayBuffer();
  }
}

/**
 * Tiles of a zoom that a rectangle of [west, south, east, north] touches, as [z, x, y]; x may lie beyond
 * the world.
 */
function covering([west, south, east, north], z) {
  const n = 2 ** z;
  const row = (degrees) => {
    const y = (n * (1 - Math.asinh(Math.tan(Math.max(-MERCATOR_DEG, Math.min(MERCATOR_DEG, degrees)) * RADIANS)) / Math.PI)) / 2;
    return Math.max(0, Math.min(n - 1, Math.floor(y)));
  };
  const column = (degrees) => Math.floor((n * (degrees + 180)) / 360);
  const last = Math.min(column(east), column(west) + n - 1);
  const found = [];
  for (let x = column(west); x <= last; x++) for (let y = row(north); y <= row(south); y++) found.push([z, x, y]);
  return found;
}

/**
 * All tiles within `bounds`, up to the greatest zoom at which there are not too many: {least, most,
 * tile(z, x, y), names}.
 * For streets, only the two closest zooms.
 */
export async function tilesOf(path, bounds, streets = false) {
  const archive = new PMTiles(new Parts(path));
  const { minZoom, maxZoom } = await archive.getHeader();
  let levels = [];
  for (let z = minZoom; z <= maxZoom; z++) {
    const tiles = covering(bounds, z);
    if (tiles.length > (streets ? MOST_STREETS : MOST_TILES)) break;
    levels.push(tiles);
  }
  if (streets) levels = levels.slice(-2);
  const key = (z, x, y) => `${z}/${((x % 2 ** z) + 2 ** z) % 2 ** z}/${y}`;
  const held = new Map();
  await Promise.all(levels.flat().map(async ([z, x, y]) => {
    const n = 2 ** z;
    const found = await archive.getZxy(z, ((x % n) + n) % n, y);
    if (found) held.set(key(z, x, y), found.data);
  }));
  const tile = (z, x, y) => held.get(key(z, x, y));
  return { least: levels[0][0][0], most: levels.at(-1)[0][0], tile, names: namesOf(levels.at(-1), tile) };
}

/** Named places, those with most people first: {name, region, place: [longitude, latitude]}. */
function namesOf(tiles, tile) {
  const found = new Map();
  for (const [z, x, y] of tiles) {
    const data = tile(z, x, y);
    const layer = data && new VectorTile(new PbfReader(data)).layers.places;
    for (let i = 0; i < (layer?.length ?? 0); i++) {
      const feature = layer.feature(i);
      const { name, region = "", population = 0 } = feature.properties;
      const place = feature.toGeoJSON(x, y, z).geometry.coordinates;
      found.set(`${name} ${place.map((degrees) => degrees.toFixed(2))}`, { name, region, population, place });
    }
  }
  return [...found.values()].sort((a, b) => b.population - a.population);
}
