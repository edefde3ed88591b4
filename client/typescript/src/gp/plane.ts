/** The plane of places: metres east and north of a centre, by geodesics of WGS 84. */
import { GeoveilError, ParameterError, PrivateValueError } from "../errors.js";
import { constant, type Interval, ONE, withPrecision } from "../exact/interval.js";
import { Rational } from "../exact/rational.js";
import type { Privacy } from "./mechanism.js";

interface Way {
  s12?: number;
  azi1?: number;
}

interface Solver {
  WGS84: { Inverse(lat1: number, lon1: number, lat2: number, lon2: number, outmask: number): Way };
  DISTANCE: number;
  AZIMUTH: number;
}

let solver: Solver | undefined;

/** Load the solver of geodesics, which only places need. */
export async function loadGeodesics(): Promise<void> {
  solver ??= (await import("geographiclib-geodesic")).default.Geodesic as unknown as Solver;
}

function geodesics(): Solver {
  if (!solver) throw new GeoveilError("unsupported", "await loadGeodesics() first");
  return solver;
}

const POLAR_RADIUS_M = 6356752.3;
const BITS = 256;
const MOST_TERMS = 60n;

export interface Plane {
  readonly longitudeDeg: number;
  readonly latitudeDeg: number;
  readonly radiusM: number;
}

export function requirePlane({ longitudeDeg, latitudeDeg, radiusM }: Plane): void {
  if (!(Math.abs(longitudeDeg) <= 180)) throw new ParameterError("longitude_deg", longitudeDeg, "a number in [-180, 180]");
  if (!(Math.abs(latitudeDeg) <= 90)) throw new ParameterError("latitude_deg", latitudeDeg, "a number in [-90, 90]");
  if (!(radiusM > 0 && radiusM <= 5e6)) throw new ParameterError("radius_m", radiusM, "a number in (0, 5e+06]");
}

/** κ, the least double not below t/sin t, t = radius/b: how much longer distances are in the plane. */
export function distortion({ radiusM }: Plane): number {
  return withPrecision(BITS, () => {
    const t = constant(Rational.from(radiusM).div(Rational.from(POLAR_RADIUS_M)));
    const square = t.square();
    let term: Interval = ONE;
    let sum: Interval = ONE; // of sin t / t, whose terms alternate and decrease
    for (let k = 1n; k < MOST_TERMS; k++) {
      term = term.mul(square).div(constant(2n * k * (2n * k + 1n))).neg();
      sum = sum.add(term);
    }
    return ONE.div(sum).ends()[1].roundUp();
  });
}

/** The privacy to calibrate with in the plane, so that a guarantee holds for true distances. */
export function inPlane(privacy: Privacy, plane: Plane): Privacy {
  const kappa = Rational.from(distortion(plane));
  const epsilon = Rational.from(privacy.epsilon).div(kappa).roundDown();
  const { reach } = privacy;
  return { ...privacy, epsilon, ...(reach !== undefined && { reach: Rational.from(reach).mul(kappa).roundUp() }) };
}

export interface Centre {
  readonly longitudeDeg: number;
  readonly latitudeDeg: number;
}

/** Metres along the geodesic between two places. */
export function geodesicDistance(a: Centre, b: Centre): number {
  const { WGS84, DISTANCE } = geodesics();
  return WGS84.Inverse(a.latitudeDeg, a.longitudeDeg, b.latitudeDeg, b.longitudeDeg, DISTANCE).s12!;
}

/** Whether a place is in the area of a plane. */
export function holds(plane: Plane, place: Centre): boolean {
  return geodesicDistance(plane, place) <= plane.radiusM;
}

/** The point of a place; one outside is moved onto the disc by a contraction. */
export function project(plane: Plane, longitude: number, latitude: number): [number, number] {
  if (!(Math.abs(longitude) <= 180 && Math.abs(latitude) <= 90)) {
    throw new PrivateValueError("a longitude in [-180, 180] and a latitude in [-90, 90], in degrees");
  }
  const { WGS84, DISTANCE, AZIMUTH } = geodesics();
  const way = WGS84.Inverse(plane.latitudeDeg, plane.longitudeDeg, latitude, longitude, DISTANCE | AZIMUTH);
  const distance = way.s12!;
  const radius = Math.min(distance, plane.radiusM, Math.max(Math.PI * POLAR_RADIUS_M - distance, 0));
  const angle = (way.azi1! * Math.PI) / 180;
  return [radius * Math.sin(angle), radius * Math.cos(angle)];
}
