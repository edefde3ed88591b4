/** Values that people hold, as points. */
import type { Attribute } from "./campaign.js";
import { PrivateValueError } from "./errors.js";
import { coordinateOf } from "./gp/log-scale.js";
import { type Centre, project } from "./gp/plane.js";

/** A number, a list of numbers, or a place in degrees. */
export type Value = number | readonly number[] | { readonly longitude: number; readonly latitude: number };

interface Asked {
  readonly attribute: Attribute;
  readonly dimension: number;
}

/** A value as a place on the Earth; undefined for others. */
export function placeOf({ attribute }: Asked, value: Value): Centre | undefined {
  if (!attribute.coordinates) return undefined;
  const given: unknown = value;
  const { longitude, latitude } = (given && typeof given === "object" ? given : {}) as { longitude?: unknown; latitude?: unknown };
  const [longitudeDeg, latitudeDeg, ...more] = Array.isArray(given) ? (given as unknown[]) : [longitude, latitude];
  if (typeof longitudeDeg !== "number" || typeof latitudeDeg !== "number" || more.length) {
    throw new PrivateValueError("a longitude and a latitude, in degrees");
  }
  return { longitudeDeg, latitudeDeg };
}

/** A value in the coordinates of queries. */
export function pointOf(campaign: Asked, value: Value): number[] {
  const { attribute, dimension } = campaign;
  const place = placeOf(campaign, value);
  if (place) return project(attribute.coordinates!, place.longitudeDeg, place.latitudeDeg);
  const given: unknown = value;
  // Copied, since `every` leaves out holes.
  const numbers = typeof given === "number" ? [given] : Array.isArray(given) ? [...(given as unknown[])] : [];
  if (numbers.length !== dimension || !numbers.every(Number.isFinite)) throw new PrivateValueError(`${dimension === 1 ? "a finite number" : `${dimension} finite numbers`}, in ${attribute.valueUnit}`);
  return attribute.scale ? [coordinateOf(attribute.scale, numbers[0] as number)] : (numbers as number[]);
}
