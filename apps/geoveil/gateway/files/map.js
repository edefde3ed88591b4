// A map without tiles: the area of the survey, what it asks about, coasts, and a pin. It fetches the
// same files for everybody: the coasts of the whole world, or the boroughs of New York.

import { say } from "./geoveil-client.js";
import { distanceText, make } from "./geoveil-survey.js";
import { element, factor } from "./odds.js";

const EARTH_M = 6371008.8;
const SIZE = 400;
const RADIANS = Math.PI / 180;
/** West, south, east and north. */
const NEW_YORK = [-74.26, 40.5, -73.7, 40.92];
/** The height of a map, in degrees, below which coasts are too crude, and above which boroughs are too small. */
const [LEAST_DEG, MOST_DEG] = [0.5, 1.5];

/** Metres east and north of the centre, on a sphere: for the picture, not for the report. */
export function toPlane(centre, longitude, latitude) {
  const [p0, p, l] = [centre.latitudeDeg, latitude, longitude - centre.longitudeDeg].map((x) => x * RADIANS);
  const cosine = Math.sin(p0) * Math.sin(p) + Math.cos(p0) * Math.cos(p) * Math.cos(l);
  const angle = Math.acos(Math.max(-1, Math.min(1, cosine)));
  const k = angle ? angle / Math.sin(angle) : 1;
  return [
    EARTH_M * k * Math.cos(p) * Math.sin(l),
    EARTH_M * k * (Math.cos(p0) * Math.sin(p) - Math.sin(p0) * Math.cos(p) * Math.cos(l)),
  ];
}

/** Longitude and latitude of a point in the plane, in degrees. */
export function toPlace(centre, x, y) {
  const distance = Math.hypot(x, y);
  const angle = distance / EARTH_M;
  const p0 = centre.latitudeDeg * RADIANS;
  if (!distance) return [centre.longitudeDeg, centre.latitudeDeg];
  const p = Math.asin(Math.cos(angle) * Math.sin(p0) + (y * Math.sin(angle) * Math.cos(p0)) / distance);
  const l = Math.atan2(
    x * Math.sin(angle),
    distance * Math.cos(p0) * Math.cos(angle) - y * Math.sin(p0) * Math.sin(angle),
  );
  const longitude = centre.longitudeDeg + l / RADIANS;
  return [((longitude + 540) % 360) - 180, p / RADIANS];
}

/**
 * Draw a map that calls `chosen(longitude, latitude)` on a click, and `told(text)` with the source of
 * its outlines; returns {box, show}.
 */
export function drawMap(centre, questions, chosen, told) {
  const scale = (0.92 * SIZE) / (2 * centre.radiusM);
  const at = ([x, y]) => [SIZE / 2 + scale * x, SIZE / 2 - scale * y];
  const box = element("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, "aria-hidden": "true" });
  box.append(element("circle", { cx: SIZE / 2, cy: SIZE / 2, r: scale * centre.radiusM, class: "area" }));
  for (const line of graticule(centre)) {
    const points = line.map((place) => at(toPlane(centre, ...place)).map((x) => x.toFixed(1)).join(","));
    box.append(element("polyline", { points: points.join(" "), class: "grid" }));
  }
  const coasts = element("g", { class: "coast" });
  box.append(coasts);
  outlines(centre).then(({ lines, source }) => {
    if (lines.length) told(source);
    for (const line of lines) {
      const points = line.map((place) => at(toPlane(centre, ...place)).map((x) => x.toFixed(1)).join(","));
      coasts.append(element("polyline", { points: points.join(" ") }));
    }
  }).catch(() => undefined); // a map without them does as well
  for (const { query } of questions) {
    const shape = outline(query, at, scale);
    if (shape) box.append(shape);
  }
  box.append(rule(centre, scale));
  const pin = element("circle", { r: 8, class: "pin", visibility: "hidden" });
  box.append(pin);
  box.addEventListener("click", (event) => {
    const corner = box.getBoundingClientRect();
    const [u, v] = [event.clientX - corner.left, event.clientY - corner.top].map((x) => (x / corner.width) * SIZE);
    chosen(...toPlace(centre, (u - SIZE / 2) / scale, (SIZE / 2 - v) / scale));
  });
  return {
    box,
    show(longitude, latitude) {
      const [x, y] = at(toPlane(centre, longitude, latitude));
      pin.setAttribute("cx", x);
      pin.setAttribute("cy", y);
      pin.setAttribute("visibility", "visible");
    },
  };
}

function outline(query, at, scale) {
  const centre = query.center ?? query.centre;
  const radius = query.radius ?? query.bandwidth;
  if (Array.isArray(centre) && radius) {
    const [cx, cy] = at(centre);
    return element("circle", { cx, cy, r: scale * radius, class: "asked" });
  }
  const corners = query.exterior ?? query.vertices;
  if (!Array.isArray(corners) || !Array.isArray(corners[0])) return null;
  return element("polygon", { points: corners.map((one) => at(one).join(",")).join(" "), class: "asked" });
}

/** The outlines near a centre, each an array of places in degrees, and their source. */
async function outlines(centre) {
  const [span, wide] = spans(centre);
  const [west, south, east, north] = NEW_YORK;
  const { longitudeDeg: l0, latitudeDeg: p0 } = centre;
  const near = l0 - wide < east && l0 + wide > west && p0 - span < north && p0 + span > south;
  if (2 * span < MOST_DEG && near) {
    const { features } = await fetched("new_york_boroughs");
    const rings = ({ geometry: { type, coordinates } }) => (type === "Polygon" ? coordinates : coordinates.flat());
    return { lines: features.flatMap(rings), source: say("map.boroughs") };
  }
  if (2 * span < LEAST_DEG) return { lines: [] };
  const held = await fetched("coastline");
  const found = [];
  for (const steps of held.lines) {
    let [east, north, line] = [0, 0, []];
    for (let i = 0; i < steps.length; i += 2) {
      east += steps[i];
      north += steps[i + 1];
      const place = [east / held.per_degree, north / held.per_degree];
      const apart = Math.abs(((place[0] - l0 + 540) % 360) - 180);
      // Cut lines well outside the visible area.
      if (Math.abs(place[1] - p0) < 1.5 * span + 1 && apart < 1.5 * wide + 1) line.push(place);
      else line = [];
      if (line.length === 2) found.push(line);
    }
  }
  return { lines: found, source: say("map.coast") };
}

async function fetched(name) {
  return await (await fetch(`/pages/${name}.json`)).json();
}

/** How far a map reaches north and east of its centre, in degrees. */
function spans(centre) {
  const span = centre.radiusM / EARTH_M / RADIANS;
  return [span, span / Math.max(0.2, Math.cos(centre.latitudeDeg * RADIANS))];
}

/** Meridians and parallels at round degrees. */
function graticule(centre) {
  const [span, wide] = spans(centre);
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20].find((one) => span / one < 4) ?? 20;
  const lines = [];
  const along = Array.from({ length: 25 }, (_, i) => (i / 12 - 1) * span);
  for (let p = Math.ceil((centre.latitudeDeg - span) / step) * step; p <= centre.latitudeDeg + span; p += step) {
    if (Math.abs(p) < 90) lines.push(along.map((t) => [centre.longitudeDeg + (t * wide) / span, p]));
  }
  for (let l = Math.ceil((centre.longitudeDeg - wide) / step) * step; l <= centre.longitudeDeg + wide; l += step) {
    lines.push(along.map((t) => [l, Math.max(-90, Math.min(90, centre.latitudeDeg + t))]));
  }
  return lines;
}

/** A scale bar. */
function rule(centre, scale) {
  const power = 10 ** Math.floor(Math.log10(centre.radiusM));
  const metres = [5, 2, 1].map((times) => times * power).find((one) => one <= centre.radiusM) ?? power;
  const text = metres < 1000 ? `${metres} m` : `${metres / 1000} km`;
  const group = element("g");
  group.append(
    element("rect", { x: 12, y: SIZE - 14, width: scale * metres, height: 3, class: "one" }),
    element("text", { x: 12, y: SIZE - 20 }, text),
  );
  return group;
}

/** The radius, in metres, within which the odds grow to at most 3 to 1, and a sentence about it. */
function circleOf(price) {
  if (!price) return { text: "" };
  const metres = Math.min((price.per * Math.log(3)) / price.epsilon, price.reach ?? Infinity);
  const far = distanceText(Number(metres.toPrecision(2)), "metre");
  return { metres, text: say("map.circle", { far, odds: factor(price, metres) }) };
}

/** Whether this browser can draw moving maps. */
function drawsMaps() {
  return document.createElement("canvas").getContext("webgl2") !== null;
}

/** A picture to point at, replaced by a moving map if the browser can draw one. */
export function maps({ centre, questions, price, put, changed }) {
  const outlines = make("p", { class: "note", id: "outlines" });
  const chosen = (longitude, latitude) => put({ longitude, latitude });
  let map = drawMap(centre, questions, chosen, (text) => (outlines.textContent = text));
  const drawn = make("div", { id: "map" }, map.box);
  const box = document.createDocumentFragment();
  box.append(drawn, outlines);
  // Fetched before it is known whether this question applies: otherwise fetching a map would reveal it.
  if (drawsMaps()) betterMap().catch(() => undefined); // the picture and the coordinates do as well
  async function betterMap() {
    const { prepareMap } = await import("./place-map.js");
    const { metres, text } = circleOf(price);
    const better = await prepareMap(centre, questions, metres);
    const seen = new IntersectionObserver(([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      seen.disconnect();
      drawn.replaceChildren(better.box);
      better.open(chosen);
      map = better;
      outlines.textContent = `${text} ${better.source}`.trim();
      changed();
    });
    seen.observe(drawn);
  }
  return {
    box,
    show({ longitude, latitude }) {
      map.show(longitude, latitude);
      const near = map.near?.(longitude, latitude);
      return near?.name ? say("map.near", { distance: distanceText(Number(near.metres.toPrecision(2)), "metre"), name: near.name }) : "";
    },
    close() {
      map.close?.();
      drawn.replaceChildren();
    },
  };
}
