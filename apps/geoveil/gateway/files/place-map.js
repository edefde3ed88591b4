// A map to point at: land, borders and names, the area of a survey, and a pin. Loaded only for questions
// about places.

import { say } from "./geoveil-client.js";
import { addProtocol, GlMap, Marker, setWorkerUrl } from "./geoveil-map.js";
import { toPlace, toPlane } from "./map.js";
import { tilesOf } from "./tiles.js";

/** Width of a map over that of its area. */
const AROUND = 1.4;
const CORNERS = 96;
const MOST_ZOOM = 18;
const MOST_LATITUDE = 80;
/** The zoom at which a searched place, or the pin of a typed one, is shown. */
const NEAR_ZOOM = 12;
/** Pixels by which a key moves the pin; one with Shift. */
const STEP = 10;
const MARGIN = 40;
const MOST_FOUND = 8;
const RADIANS = Math.PI / 180;
const METRES_PER_DEG = 6371008.8 * RADIANS;

const file = (name) => new URL(name, import.meta.url).href;
setWorkerUrl(file("geoveil-map-worker.js"));
const maps = [];
addProtocol("held", async ({ url }) => {
  const [map, z, x, y] = url.slice("held://".length).split("/").map(Number);
  return { data: maps[map].tile(z, x, y)?.slice() ?? new ArrayBuffer(0) }; // a copy, which moves to a worker
});

/** An element with children; text never becomes markup. */
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

let sheet;

/** Wait for the style sheet of maps, which has the colours. */
function styled() {
  sheet ??= new Promise((resolve, reject) => {
    const link = make("link", { rel: "stylesheet", href: file("place-map.css") });
    link.addEventListener("load", resolve);
    link.addEventListener("error", reject);
    document.head.append(link);
  });
  return sheet;
}

/** A ring around a place, in degrees that don't jump at the antimeridian. */
function ring({ longitudeDeg, latitudeDeg }, metres) {
  const at = (i) => {
    const angle = (2 * Math.PI * i) / CORNERS;
    const [east, north] = toPlace({ longitudeDeg, latitudeDeg }, metres * Math.cos(angle), metres * Math.sin(angle));
    return [beside(longitudeDeg, east), north];
  };
  return Array.from({ length: CORNERS + 1 }, (_, i) => at(i % CORNERS));
}

function beside(longitude, other) {
  return longitude + ((((other - longitude + 180) % 360) + 360) % 360) - 180;
}

function boundsOf({ longitudeDeg, latitudeDeg, radiusM }, times) {
  const high = (times * radiusM) / METRES_PER_DEG;
  const wide = Math.min(180, high / Math.max(0.02, Math.cos(latitudeDeg * RADIANS)));
  const [south, north] = [Math.max(-85, latitudeDeg - high), Math.min(85, latitudeDeg + high)];
  return [longitudeDeg - wide, south, longitudeDeg + wide, north];
}

function polygon(...rings) {
  return { type: "Feature", properties: {}, geometry: { type: "Polygon", coordinates: rings } };
}

function collected(features) {
  return { type: "geojson", tolerance: 0.1, data: { type: "FeatureCollection", features } };
}

/** The region on the ground that a question asks about. */
function asked(centre, { query }) {
  const place = ([x, y]) => {
    const [longitude, latitude] = toPlace(centre, x, y);
    return [beside(centre.longitudeDeg, longitude), latitude];
  };
  const middle = query.center ?? query.centre;
  const radius = query.radius ?? query.bandwidth;
  if (Array.isArray(middle) && radius) {
    const [longitudeDeg, latitudeDeg] = place(middle);
    return [polygon(ring({ longitudeDeg, latitudeDeg }, radius))];
  }
  const corners = query.exterior ?? query.vertices;
  if (!Array.isArray(corners) || !Array.isArray(corners[0])) return [];
  return [polygon([...corners, corners[0]].map(place))];
}

/** The layers of streets, with the names of Protomaps. */
function streetLayers(colour, line) {
  const roads = (id, kinds, width) => line(id, "streets", { "line-color": colour("border"), "line-width": ["interpolate", ["exponential", 1.6], ["zoom"], 8, width / 4, 18, width * 8] },
    { "source-layer": "roads", filter: ["in", ["get", "kind"], ["literal", kinds]] });
  const text = { "text-color": colour("ink"), "text-halo-color": colour("earth"), "text-halo-width": 1.5 };
  return [
    { id: "streets-water", type: "fill", source: "streets", "source-layer": "water", filter: ["==", ["geometry-type"], "Polygon"], paint: { "fill-color": colour("water") } },
    roads("minor", ["minor_road", "path", "rail", "other"], 1),
    roads("major", ["major_road", "medium_road"], 2),
    roads("highway", ["highway"], 3),
    { id: "names", type: "symbol", source: "streets", "source-layer": "roads", minzoom: 12, paint: text,
      layout: { "symbol-placement": "line", "text-field": ["coalesce", ["get", "name"], ""], "text-size": 12 } },
  ];
}

function styleOf(number, { most }, streets, centre, questions, around) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const area = ring(centre, centre.radiusM);
  const [west, south, east, north] = boundsOf(centre, 2 * AROUND);
  const outside = polygon([[west, south], [east, south], [east, north], [west, north], [west, south]], area);
  const line = (id, source, paint, rest = {}) => ({ id, type: "line", source, paint, layout: { "line-join": "round" }, ...rest });
  const fill = (id, source, name, opacity, rest = {}) => ({ id, type: "fill", source, paint: { "fill-color": colour(name), "fill-opacity": opacity }, ...rest });
  const border = (kind, width) => line(kind, "base", { "line-color": colour("border"), "line-width": width }, { "source-layer": "boundaries", filter: ["==", ["get", "kind"], kind] });
  return {
    version: 8,
    sources: {
      base: { type: "vector", tiles: [`held://${number}/{z}/{x}/{y}`], minzoom: 0, maxzoom: most },
      ...(streets && { streets: { type: "vector", tiles: [`held://${number + 1}/{z}/{x}/{y}`], minzoom: streets.least, maxzoom: streets.most } }),
      area: collected([polygon(area)]),
      outside: collected([outside]),
      asked: collected(questions.flatMap((one) => asked(centre, one))),
      around: around ? collected([around]) : collected([]),
    },
    layers: [
      { id: "water", type: "background", paint: { "background-color": colour("water") } },
      fill("earth", "base", "earth", 1, { "source-layer": "earth" }),
      ...(streets ? streetLayers(colour, line) : []),
      border("county", 0.7),
      border("region", 1.2),
      border("country", 1.8),
      fill("outside", "outside", "page", 0.55),
      line("area", "area", { "line-color": colour("ink"), "line-width": 2 }),
      fill("asked", "asked", "one", 0.15),
      line("asked-edge", "asked", { "line-color": colour("one"), "line-width": 1.5 }),
      fill("around", "around", "other", 0.15),
      line("around-edge", "around", { "line-color": colour("other"), "line-width": 2, "line-dasharray": [3, 2] }),
      {
        id: "places", type: "symbol", source: "base", "source-layer": "places",
        layout: {
          "text-field": ["get", "name"],
          "text-size": ["step", ["get", "population"], 13, 1e5, 15, 1e6, 18],
          "text-padding": 6,
          "symbol-sort-key": ["-", ["get", "population"]],
        },
        paint: { "text-color": colour("ink"), "text-halo-color": colour("earth"), "text-halo-width": 1.5 },
      },
    ],
  };
}

/**
 * Fetch all that a map of an area needs; `open(chosen)`, once its `box` is in the page, shows it and
 * calls `chosen(longitude, latitude)` on a click. `show(longitude, latitude)` puts the pin, within a
 * circle of
 * `circleM` metres if there is one, and `near` names a place close by.
 */
export async function prepareMap(centre, questions, circleM) {
  if (Math.abs(centre.latitudeDeg) > MOST_LATITUDE) throw new RangeError("Mercator's map does not show a pole");
  const bounds = boundsOf(centre, AROUND);
  const [tiles, streets] = await Promise.all([
    tilesOf(file("world.pmtiles"), bounds),
    tilesOf(file("streets.pmtiles"), bounds, true).catch(() => undefined), // an operator need not have any
    styled(),
  ]);
  const number = maps.push(tiles) - 1;
  if (streets) maps.push(streets);
  const screen = make("div", { class: "screen" });
  const search = make("input", { id: "find", type: "search", list: "names", autocomplete: "off", spellcheck: "false" });
  const names = make("datalist", { id: "names" });
  const said = make("p", { class: "note", role: "status" });
  const scale = make("div", { class: "scale", "aria-hidden": "true" });
  const button = (text, label) => make("button", { type: "button", class: "plain", "aria-label": label, title: label }, text);
  const [closer, farther, whole] = [button("+", say("map.in")), button("−", say("map.out")), button("⤢", say("map.whole"))];
  const box = make("div", { class: "place-map" },
    make("div", { class: "field" }, make("label", { for: "find" }, say("map.find")), search, names), said,
    make("div", { class: "frame" }, screen, make("div", { class: "tools" }, closer, farther, whole), scale));
  let [map, pin, around, at, choose] = [];

  const titled = ({ name, region }) => (region ? `${name}, ${region}` : name);
  const find = () => {
    const text = search.value.trim().toLocaleLowerCase();
    said.textContent = "";
    const exact = tiles.names.find((one) => titled(one).toLocaleLowerCase() === text);
    if (exact) return go(exact);
    const begins = tiles.names.filter(({ name }) => text && name.toLocaleLowerCase().startsWith(text));
    names.replaceChildren(...begins.slice(0, MOST_FOUND).map((one) => make("option", { value: titled(one) })));
    return begins[0];
  };
  const go = (one) => {
    map?.jumpTo({ center: one.place, zoom: Math.max(NEAR_ZOOM, map.getZoom()) });
    said.textContent = say("map.shows", { name: titled(one) });
    return one;
  };
  search.addEventListener("input", (event) => {
    event.stopPropagation(); // a search is no answer
    find();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const first = find();
    if (first) go(first);
    else said.textContent = say("map.nowhere");
  });
  const fit = (animate) => {
    const [west, south, east, north] = boundsOf(centre, 1.08);
    map.fitBounds([[west, south], [east, north]], { animate });
  };
  const measure = () => {
    const metres = (METRES_PER_DEG * 360 * Math.cos(map.getCenter().lat * RADIANS)) / (512 * 2 ** map.getZoom());
    const power = 10 ** Math.floor(Math.log10(100 * metres));
    const length = [5, 2, 1].map((times) => times * power).find((one) => one <= 100 * metres);
    scale.style.width = `${length / metres}px`;
    scale.textContent = length < 1000 ? `${length} m` : `${length / 1000} km`;
  };
  const key = (event) => {
    const step = event.shiftKey ? 1 : STEP;
    const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    const zoom = { "+": 1, "=": 1, "-": -1 }[event.key];
    if ((!way && !zoom) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (zoom) return map.jumpTo({ zoom: map.getZoom() + zoom, ...(at && { center: at }) });
    const { x, y } = map.project(at ?? map.getCenter());
    const moved = map.unproject(at ? [x + way[0], y + way[1]] : [x, y]).wrap();
    choose(moved.lng, moved.lat);
    const { clientWidth, clientHeight } = screen;
    if (Math.min(x, y, clientWidth - x, clientHeight - y) < MARGIN) map.jumpTo({ center: moved });
  };
  const style = () => styleOf(number, tiles, streets, centre, questions, around);

  return {
    box,
    source: streets ? say("map.streets", { source: say("map.source") }) : say("map.source"),
    open(chosen) {
      choose = chosen;
      const [west, south, east, north] = boundsOf(centre, AROUND);
      map = new GlMap({
        container: screen, style: style(), maxBounds: [[west, south], [east, north]], maxZoom: MOST_ZOOM,
        attributionControl: false, keyboard: false, dragRotate: false, pitchWithRotate: false, touchPitch: false,
        fadeDuration: 0, locale: { "Map.Title": say("map.keys") },
      });
      map.getCanvas().setAttribute("role", "application");
      map.touchZoomRotate.disableRotation();
      map.scrollZoom.disable(); // a page is scrolled past a map that nobody uses
      map.getCanvas().addEventListener("focus", () => map.scrollZoom.enable());
      map.getCanvas().addEventListener("blur", () => map.scrollZoom.disable());
      map.getCanvas().addEventListener("keydown", key);
      map.on("click", ({ lngLat }) => choose(...Object.values(lngLat.wrap())));
      map.on("move", measure);
      fit(false);
      measure();
      closer.addEventListener("click", () => map.zoomIn());
      farther.addEventListener("click", () => map.zoomOut());
      whole.addEventListener("click", () => fit(true));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map?.setStyle(style()));
      map.once("load", () => (box.dataset.ready = "true"));
    },
    show(longitude, latitude) {
      const place = [beside(centre.longitudeDeg, longitude), latitude];
      if (at && at[0] === place[0] && at[1] === place[1]) return;
      at = place;
      if (!map) return;
      if (circleM) around = polygon(ring({ longitudeDeg: at[0], latitudeDeg: at[1] }, circleM));
      if (!pin) {
        pin = new Marker({ element: make("div", { class: "pin" }), draggable: true }).setLngLat(at).addTo(map);
        pin.on("dragend", () => choose(...Object.values(pin.getLngLat().wrap())));
      }
      pin.setLngLat(at);
      if (around) map.getSource("around")?.setData(around);
      if (!map.getBounds().contains(at)) map.jumpTo({ center: at });
    },
    /** The nearest named place, and its distance in metres. */
    near(longitude, latitude) {
      const here = { longitudeDeg: longitude, latitudeDeg: latitude };
      const apart = tiles.names.map((one) => ({ name: one.name, metres: Math.hypot(...toPlane(here, ...one.place)) }));
      return apart.reduce((best, one) => (one.metres < best.metres ? one : best), { name: "", metres: Infinity });
    },
    close() {
      map?.remove();
      map = undefined;
    },
  };
}
